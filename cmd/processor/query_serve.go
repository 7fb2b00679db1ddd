package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

const (
	defaultRows   = 100
	maxRows       = 10_000           // of one listing: the worker that reads them processes nothing meanwhile
	queryDeadline = 10 * time.Second // for all tasks of one question
)

// queryStatus is how each kind of error is answered.
var queryStatus = map[queryErrorKind]int{
	queryUsage:     http.StatusBadRequest,
	queryNoStore:   http.StatusNotFound,
	queryNotFound:  http.StatusNotFound,
	queryElsewhere: http.StatusMisdirectedRequest,
	queryNotReady:  http.StatusServiceUnavailable,
	queryRefused:   http.StatusForbidden,
	queryFailed:    http.StatusInternalServerError,
}

// handler answers /query (all stores) and /query/<store> (one key with ?key=, else a listing with ?limit=, ?prefix=, ?from= and
// ?to=), where <store> may be written as <stage>/<store>. The rest of the admin port tells numbers; this tells customers' data,
// without a password: it answers who asks from this machine, and nobody else.
func (q *querier) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /query", answering(func(ctx context.Context, _ *http.Request) (any, error) { return q.stores(ctx) }))
	mux.HandleFunc("GET /query/{store...}", answering(q.store))
	return mux
}

func answering(answer func(context.Context, *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), queryDeadline)
		defer cancel()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		var body any
		err := fromHere(r)
		if err == nil {
			body, err = answer(ctx, r)
		}
		if err != nil {
			e := asQueryError(err)
			w.WriteHeader(queryStatus[e.Kind])
			body = map[string]*queryError{"error": e}
		}
		_ = writeJSON(w, body, "") // a reader that went away is not our error
	}
}

// fromHere refuses other machines, and a browser that was sent here under another name than an address or localhost.
func fromHere(r *http.Request) error {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !peer.Addr().Unmap().IsLoopback() {
		return &queryError{Kind: queryRefused, Message: "state is shown on the machine of the processor only", Hint: "run processor query there (kubectl exec, docker exec, ssh), or forward the port to it (kubectl port-forward)"}
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err != nil && host != "localhost" {
		return &queryError{Kind: queryRefused, Message: fmt.Sprintf("the request is for host %q", host), Hint: "use the address or localhost"}
	}
	return nil
}

func asQueryError(err error) *queryError {
	var e *queryError
	if errors.As(err, &e) {
		return e
	}
	return &queryError{Kind: queryFailed, Message: err.Error()}
}

// store answers for one store.
func (q *querier) store(ctx context.Context, r *http.Request) (any, error) {
	stage, spec, err := q.named(r.PathValue("store"))
	if err != nil {
		return nil, err
	}
	args := r.URL.Query()
	for name := range args {
		if !strings.Contains(" key limit prefix from to ", " "+name+" ") {
			return nil, &queryError{Kind: queryUsage, Message: fmt.Sprintf("parameter %q is unknown", name), Hint: "use key, or limit, prefix, from and to"}
		}
	}
	if args.Has("key") {
		return q.find(ctx, stage, spec, args.Get("key"))
	}
	limit, err := strconv.Atoi(cmp.Or(args.Get("limit"), strconv.Itoa(defaultRows)))
	if err != nil || limit < 1 || limit > maxRows {
		return nil, &queryError{Kind: queryUsage, Message: fmt.Sprintf("limit %q: give 1 to %d", args.Get("limit"), maxRows)}
	}
	return q.list(ctx, stage, spec, rowRange{limit: limit, prefix: args.Get("prefix"), from: args.Get("from"), to: args.Get("to")})
}
