package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// admin answers a supervisor: is the process alive, can it work, what is it doing. It never touches a broker.
type admin struct {
	notReady func() []string // why the process cannot work now; empty when it can
	status   func() any      // what /status shows, as JSON
	query    http.Handler    // /query and what is below it
}

// adminPaths is what the port answers, as / and the log say it.
var adminPaths = []string{"/livez", "/readyz", "/status", "/query"}

func (a *admin) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = writeJSON(w, a.status(), "  ") // a reader that went away is not our error
	})
	mux.Handle("GET /query", a.query)
	mux.Handle("GET /query/", a.query)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, strings.Join(adminPaths, "\n")) })
	return mux
}

// readyz is 503 with one reason a line while the process cannot work.
func (a *admin) readyz(w http.ResponseWriter, _ *http.Request) {
	if reasons := a.notReady(); len(reasons) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, strings.Join(reasons, "\n"))
		return
	}
	fmt.Fprintln(w, "ready")
}

// listen serves on addr until stop is called, which waits for open requests, at most a second.
func (a *admin) listen(addr string) (bound net.Addr, stop func(), err error) {
	bound, stop, err = serve(addr, a.handler())
	if err != nil {
		return nil, nil, fail(exitFailed, fmt.Errorf("admin port: %w", err), "choose another admin.listen; port 0 takes any free one, off none")
	}
	return bound, stop, nil
}

// serve answers on addr until stop is called.
func serve(addr string, handler http.Handler) (bound net.Addr, stop func(), err error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(l) }() // ends with the listener, by Shutdown
	return l.Addr(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = server.Shutdown(ctx) // what is still open then ends with the process
	}, nil
}
