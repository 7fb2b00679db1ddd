package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tallystick/tallystick/ledger"
)

type queryFlags struct {
	admin            string
	source           string
	prefix, from, to string
	limit            int
}

func newQuery(c *cli) *cobra.Command {
	var f queryFlags
	cmd := &cobra.Command{
		Use:   "query [store [key]]",
		Short: "Ask the processor on this machine for its state: a balance, an event id, a store's size",
		Long: "query asks the processor that runs on this machine, through its admin port. Without arguments it lists the stores and their sizes; with a\n" +
			"store, its rows; with a key, one row as it is stored. For the inbox the key is an event id, and the answer where it was first seen.\n" +
			"Answers are committed state, each with the task that it comes from, its transaction number and the next offset of each input.\n\n" +
			"A process has the state of its own tasks only. Exit 4 when the key does not exist, or when another instance has its task, which is then\n" +
			"named: ask there. Exit 5 when the task is being restored (it says how far), or when no processor answers.",
		Example: "  processor query\n  processor query accounts ACC-000007\n  processor query accounts --prefix ACC-00 --limit 20 -o jsonl\n  processor query inbox EVT-42\n" +
			"  kubectl exec ledger-0 -- processor query accounts ACC-000007",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 2 {
				return fmt.Errorf("%s takes a store and a key, got %d arguments", cmd.CommandPath(), len(args))
			}
			return nil
		},
	}
	cmd.ValidArgsFunction = c.firstArgument(storeNames)
	configFlags(cmd)
	cmd.Flags().StringVar(&f.admin, "admin", "", "address of the processor's admin port, host:port; default: admin.listen of the configuration")
	cmd.Flags().StringVar(&f.source, "source", "", "the CloudEvents source of the event id, if it came with one")
	cmd.Flags().StringVar(&f.prefix, "prefix", "", "list the keys that begin with this")
	cmd.Flags().StringVar(&f.from, "from", "", "list from this key on")
	cmd.Flags().StringVar(&f.to, "to", "", "list up to this key, without it")
	cmd.Flags().IntVarP(&f.limit, "limit", "n", defaultRows, fmt.Sprintf("list at most this many rows, up to %d", maxRows))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := c.config(cmd)
		if err != nil {
			return err
		}
		return c.query(cmd, cfg, f, args)
	}
	return cmd
}

func (c *cli) query(cmd *cobra.Command, cfg Config, f queryFlags, args []string) error {
	for _, flag := range []string{"prefix", "from", "to", "limit"} {
		if len(args) != 1 && cmd.Flags().Changed(flag) {
			return usageErrorf("--%s is for the listing of one store: name a store and no key", flag)
		}
	}
	if f.source != "" && len(args) != 2 {
		return usageErrorf("--source belongs to an event id: name the inbox and the id")
	}
	port, err := newAdminClient(cfg, f.admin)
	if err != nil {
		return err
	}
	switch len(args) {
	case 0:
		return c.queryStores(cmd.Context(), port)
	case 1:
		return c.queryRows(cmd.Context(), port, args[0], f)
	}
	return c.queryKey(cmd.Context(), port, args[0], (&ledger.Event{EventID: args[1], Source: f.source}).Identity())
}

func (c *cli) queryKey(ctx context.Context, port *adminClient, store, key string) error {
	var row queryRow
	if err := port.get(ctx, queryPath(store), url.Values{"key": {key}}, &row); err != nil {
		return err
	}
	rows := [][]string{{"key", keyText(row.Key)}}
	if row.First != nil {
		rows = append(rows, []string{"first seen", row.First.String()})
	} else {
		rows = append(rows, []string{"value", string(row.Value)})
	}
	return printOne(c, row, aligned(append(rows, []string{"task", row.Task}, []string{"as of", row.asOf.String()})))
}

func (a asOf) String() string {
	parts := []string{fmt.Sprintf("transaction %d", a.TxnSeq)}
	for _, n := range a.Applied {
		parts = append(parts, fmt.Sprintf("%s applied below %d", n.Topic, n.Next))
	}
	return strings.Join(parts, ", ")
}

func (c *cli) queryRows(ctx context.Context, port *adminClient, store string, f queryFlags) error {
	args := url.Values{"limit": {strconv.Itoa(f.limit)}}
	for name, value := range map[string]string{"prefix": f.prefix, "from": f.from, "to": f.to} {
		if value != "" {
			args.Set(name, value)
		}
	}
	var got queryRows
	if err := port.get(ctx, queryPath(store), args, &got); err != nil {
		return err
	}
	if len(got.Rows) == 0 && len(got.Missing) > 0 { // nothing could be looked at
		return queryFailure(unanswered(fmt.Sprintf("store %q", store), got.Missing))
	}
	err := printList(c, []string{"key", "value", "task", "txn"}, got.Rows, func(r queryRow) []string {
		return []string{keyText(r.Key), string(r.Value), r.Task, strconv.FormatUint(r.TxnSeq, 10)}
	})
	if got.More {
		fmt.Fprintf(c.stderr, "there are more rows: raise --limit, or list on with --from\n")
	}
	return errors.Join(err, c.sayMissing(got.Missing))
}

// sayMissing names the tasks that an answer leaves out. Those of other instances are no failure: each answers for its own.
func (c *cli) sayMissing(tasks []missingTask) error {
	var waiting []missingTask
	for _, m := range tasks {
		if m.Kind == queryElsewhere {
			fmt.Fprintf(c.stderr, "left out: %s\n", m.Why)
		} else {
			waiting = append(waiting, m)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	return queryFailure(unanswered("the answer is not complete", waiting))
}

func (c *cli) queryStores(ctx context.Context, port *adminClient) error {
	var got queryStores
	if err := port.get(ctx, "/query", nil, &got); err != nil {
		return err
	}
	err := printList(c, []string{"store", "stage", "kind", "keys", "memory", "tasks"}, got.Stores, func(s queryStore) []string {
		return []string{s.Store, s.Stage, s.Kind, thousands(s.Keys), mebibytes(s.Bytes), fmt.Sprintf("%d of %d", len(s.Tasks), s.Of)}
	})
	return errors.Join(err, c.sayMissing(got.Missing))
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

func queryPath(store string) string {
	parts := strings.Split(store, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return "/query/" + strings.Join(parts, "/")
}

// adminClient asks a processor's admin port.
type adminClient struct {
	base string // http://host:port
	from string // where the address comes from, for people
	http *http.Client
}

// newAdminClient finds the admin port: by flag, else by the configuration that the processor itself reads.
func newAdminClient(cfg Config, flag string) (*adminClient, error) {
	addr, from := flag, "--admin"
	if flag == "" {
		addr, from = cfg.AdminListen, "admin.listen"
	}
	host, port, err := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(addr, "http://"), "/"))
	switch {
	case addr == "":
		return nil, fail(exitUsage, errors.New("admin.listen is off: the processor has no port to ask"), "set admin.listen and restart it, or name its address with --admin")
	case err != nil || !isPort(port, 0):
		return nil, usageErrorf("--admin %q is not host:port", flag)
	case port == "0":
		return nil, fail(exitUsage, fmt.Errorf("%s has port 0: which one the processor took stands in its log", from), "give it with --admin host:port; the log says: admin port addr=…")
	case slices.Contains([]string{"", "0.0.0.0", "::"}, host): // listening everywhere includes here
		host = "127.0.0.1"
	}
	transport := &http.Transport{DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext} // no proxy: it is this machine
	return &adminClient{base: "http://" + net.JoinHostPort(host, port), from: from, http: &http.Client{Timeout: queryDeadline + 5*time.Second, Transport: transport}}, nil
}

const maxAnswer = 256 << 20 // bytes: a listing of the most rows there may be, with large values

// get asks for a path and reads the answer into out.
func (a *adminClient) get(ctx context.Context, path string, args url.Values, out any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path+"?"+args.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	resp, err := a.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fail(exitUnavailable, fmt.Errorf("no processor answers at %s (%s): %w", a.base, a.from, rootCause(err)),
			"query asks the processor on this machine: start it with processor run, or name its admin port with --admin host:port")
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fail(exitUnavailable, fmt.Errorf("%s%s: %w", a.base, path, err), "try again; the processor may have ended")
	}
	return a.answer(resp.StatusCode, path, body, out)
}

func (a *adminClient) answer(status int, path string, body []byte, out any) error {
	var failed struct {
		Error *queryError `json:"error"`
	}
	err := json.Unmarshal(body, &failed)
	switch {
	case err == nil && failed.Error != nil:
		return queryFailure(failed.Error)
	case err != nil || status != http.StatusOK:
		return fail(exitUnavailable, fmt.Errorf("what answers at %s%s (%s) is not the admin port of a processor of this version (HTTP %d)", a.base, path, a.from, status), "name the processor's own with --admin host:port")
	}
	return json.Unmarshal(body, out)
}

// rootCause leaves out the method and the address, which the message has already.
func rootCause(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// queryFailure gives an answer that is none its exit code.
func queryFailure(err error) error {
	e := asQueryError(err)
	code := map[queryErrorKind]exitCode{
		queryUsage: exitUsage, queryNoStore: exitNotFound, queryNotFound: exitNotFound, queryElsewhere: exitNotFound, queryNotReady: exitUnavailable,
	}[e.Kind]
	if code == exitOK {
		code = exitFailed
	}
	return fail(code, e, e.Hint)
}
