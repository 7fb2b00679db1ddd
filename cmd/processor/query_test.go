package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tallystick/tallystick/ledger/topology"
	"github.com/tallystick/tallystick/pipeline"
)

// runningJob is a processor in a process of its own, with its events processed, and the address of its admin port.
func runningJob(t *testing.T, events int) (admin string) {
	t.Helper()
	_, cfg := startJob(t)
	p := spawn(t, append(runFlags(cfg), "--num-stream-threads", "1")...)
	admin = strings.TrimPrefix(p.adminURL(t), "http://")
	client := feedSome(t, cfg, events)
	if err := newOnlooker(client, cfg.ApplicationID).awaitCommitted(t.Context(), topology.Credits.Name); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, "http://"+admin, 4)
	return admin
}

// query runs the command and returns what it printed.
func query(t *testing.T, admin string, args ...string) (exitCode, string, string) {
	t.Helper()
	c, stdout, stderr := newTestCLI()
	code := c.execute(t.Context(), append(append([]string{"query"}, args...), "--admin", admin))
	return code, stdout.String(), stderr.String()
}

func TestQueryAnswersFromTheRunningProcess(t *testing.T) {
	admin := runningJob(t, 300)
	code, out, said := query(t, admin)
	if code != exitOK || !strings.Contains(out, "accounts") || !strings.Contains(out, "inbox") || !strings.Contains(out, "4 of 4") {
		t.Fatalf("stores: exit %d\n%s%s", code, out, said)
	}
	code, out, said = query(t, admin, "accounts", "-o", "jsonl", "--limit", "10000")
	if code != exitOK || said != "" {
		t.Fatalf("rows: exit %d: %s", code, said)
	}
	var first queryRow
	rows := strings.Split(strings.TrimSpace(out), "\n")
	if err := json.Unmarshal([]byte(rows[0]), &first); err != nil || len(rows) < 10 {
		t.Fatalf("%d rows: %v\n%s", len(rows), err, out)
	}
	key := keyText(first.Key)
	code, out, _ = query(t, admin, "accounts", key)
	if code != exitOK || !strings.Contains(out, `"balance"`) || !strings.Contains(out, "as of  transaction ") || !strings.Contains(out, "credit-events applied below ") {
		t.Errorf("one row: exit %d\n%s", code, out)
	}
	code, out, _ = query(t, admin, "post/accounts", key, "-o", "json")
	var row queryRow
	if err := json.Unmarshal([]byte(out), &row); code != exitOK || err != nil || keyText(row.Key) != key || row.TxnSeq == 0 || len(row.Applied) != 1 {
		t.Errorf("one row as JSON: exit %d, %v\n%s", code, err, out)
	}
	code, out, said = query(t, admin, "accounts", "--prefix", key, "--limit", "1")
	if code != exitOK || countLines(out) != 2 {
		t.Errorf("a prefix: exit %d\n%s%s", code, out, said)
	}
	if code, _, said = query(t, admin, "accounts", "-n", "1"); code != exitOK || !strings.Contains(said, "there are more rows") {
		t.Errorf("a limit: exit %d: %s", code, said)
	}
	wantInbox(t, admin)
	wantRefusals(t, admin)
}

func wantInbox(t *testing.T, admin string) {
	t.Helper()
	code, out, said := query(t, admin, "inbox")
	if code != exitUsage || out != "" || !strings.Contains(said, "cannot be listed") {
		t.Errorf("the inbox's rows: exit %d: %s%s", code, out, said)
	}
	if code, _, said = query(t, admin, "inbox", "no-such-id"); code != exitNotFound || !strings.Contains(said, `does not remember id "no-such-id"`) {
		t.Errorf("an unknown id: exit %d: %s", code, said)
	}
}

func wantRefusals(t *testing.T, admin string) {
	t.Helper()
	for _, c := range []struct {
		args []string
		code exitCode
		says string
	}{
		{[]string{"accounts", "nobody"}, exitNotFound, `store "accounts" has no key "nobody" (it would be in task post/`},
		{[]string{"acounts"}, exitNotFound, `the job has no store "acounts"`},
		{[]string{"other/accounts"}, exitNotFound, `the job has no store "other/accounts"`},
		{[]string{"accounts", "--limit", "0"}, exitUsage, "give 1 to 10000"},
		{[]string{"accounts", "a", "--prefix", "b"}, exitUsage, "--prefix is for the listing"},
		{[]string{"accounts", "a", "b"}, exitUsage, "takes a store and a key"},
		{[]string{"accounts", "base64:?"}, exitUsage, "illegal base64"},
		{[]string{"accounts", "--source", "x"}, exitUsage, "--source belongs to an event id"},
	} {
		if code, out, said := query(t, admin, c.args...); code != c.code || out != "" || !strings.Contains(said, c.says) {
			t.Errorf("query %q: exit %d, stdout %q, stderr %s", c.args, code, out, said)
		}
	}
}

func TestQueryFindsWhereAnEventWasFirstSeen(t *testing.T) {
	_, cfg := startJob(t)
	p := spawn(t, append(runFlags(cfg), "--num-stream-threads", "1")...)
	admin := strings.TrimPrefix(p.adminURL(t), "http://")
	client := feedSome(t, cfg, 50)
	if err := newOnlooker(client, cfg.ApplicationID).awaitCommitted(t.Context(), topology.Credits.Name); err != nil {
		t.Fatal(err)
	}
	c, stdout, stderr := newTestCLI()
	if code := c.execute(t.Context(), []string{"tail", topology.Updates.Name, "--to-end", "-n", "1", "-f", "%v\n", "--bootstrap-servers", strings.Join(cfg.BootstrapServers, ",")}); code != exitOK {
		t.Fatal(stderr)
	}
	var update struct {
		EventID string `json:"event_id"`
		Source  struct {
			Topic     string
			Partition int
			Offset    int64
		}
	}
	if err := json.Unmarshal(stdout.Bytes(), &update); err != nil {
		t.Fatal(err)
	}
	code, out, said := query(t, admin, "inbox", update.EventID)
	if want := fmt.Sprintf("first seen  %s/%d/%d", update.Source.Topic, update.Source.Partition, update.Source.Offset); code != exitOK || !strings.Contains(out, want) {
		t.Errorf("exit %d, want %q:\n%s%s", code, want, out, said)
	}
	if code, _, _ := query(t, admin, "inbox", update.EventID, "--source", "/elsewhere"); code != exitNotFound {
		t.Errorf("the same id of another source: exit %d", code)
	}
}

func TestQueryWithoutAProcessorSaysWhatToDo(t *testing.T) {
	code, _, said := query(t, "127.0.0.1:1", "accounts", "x")
	if code != exitUnavailable || !strings.Contains(said, "no processor answers at http://127.0.0.1:1 (--admin)") || !strings.Contains(said, "hint: query asks the processor on this machine") {
		t.Errorf("nobody listens: exit %d: %s", code, said)
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	code, _, said = query(t, other.Listener.Addr().String(), "accounts", "x")
	if code != exitUnavailable || !strings.Contains(said, "is not the admin port of a processor") {
		t.Errorf("somebody else listens: exit %d: %s", code, said)
	}
	for env, says := range map[string]string{"PROCESSOR_ADMIN_LISTEN=off": "admin.listen is off", "PROCESSOR_ADMIN_LISTEN=127.0.0.1:0": "has port 0"} {
		c, _, stderr := newTestCLI(env)
		if code := c.execute(t.Context(), []string{"query"}); code != exitUsage || !strings.Contains(stderr.String(), says) {
			t.Errorf("%s: exit %d: %s", env, code, stderr)
		}
	}
	if code, _, said := query(t, "127.0.0.1:1", "--limit", "5"); code != exitUsage || !strings.Contains(said, "name a store and no key") {
		t.Errorf("a limit without a store: exit %d: %s", code, said)
	}
	if code, _, said := query(t, "nonsense"); code != exitUsage || !strings.Contains(said, "is not host:port") {
		t.Errorf("a wrong address: exit %d: %s", code, said)
	}
}

func TestQueryAnswersThisMachineOnly(t *testing.T) {
	for _, c := range []struct {
		peer, host string
		ok         bool
	}{
		{"127.0.0.1:5", "127.0.0.1:8090", true},
		{"[::1]:5", "[::1]:8090", true},
		{"[::ffff:127.0.0.1]:5", "localhost:8090", true},
		{"10.0.0.7:5", "10.0.0.9:8090", false},
		{"127.0.0.1:5", "evil.example:8090", false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/query", nil)
		r.RemoteAddr, r.Host = c.peer, c.host
		w := httptest.NewRecorder()
		answering(func(context.Context, *http.Request) (any, error) { return 1, nil })(w, r)
		if (w.Code != http.StatusForbidden) != c.ok {
			t.Errorf("from %s to %s: %d %s", c.peer, c.host, w.Code, w.Body)
		}
	}
}

func TestRestoringAndElsewhereHaveTheirOwnExitCodes(t *testing.T) {
	restore := &pipeline.RestoreProgress{From: 0, Next: 25, Target: 100, Records: 20}
	id := pipeline.TaskID{Stage: "post", Partition: 2}
	for _, c := range []struct {
		err  error
		code exitCode
		says string
	}{
		{&pipeline.NotReadyError{Task: id, Why: "it is being restored", Restore: restore}, exitUnavailable, "task post/2: it is being restored: 20 records, 25% (offset 25 of 100)"},
		{&pipeline.NotReadyError{Task: id, Why: "it is stopped: I3"}, exitUnavailable, "a stopped one does not come back by itself"},
		{&pipeline.ElsewhereError{Task: id, Instance: "ledger-1", Host: "/10.0.0.7"}, exitNotFound, `owned by instance "ledger-1" at /10.0.0.7`},
		{fmt.Errorf("disk"), exitFailed, "disk"},
	} {
		err := queryFailure(unanswered("store", []missingTask{unreadTask(id, c.err)}))
		c2, _, stderr := newTestCLI()
		if code := exitOf(t.Context(), c2.stderr, err, false); code != c.code || !strings.Contains(stderr.String(), c.says) {
			t.Errorf("%v: exit %d: %s", c.err, code, stderr)
		}
	}
}

func TestKeysAndValuesAreShownAsWhatTheyStandFor(t *testing.T) {
	for _, c := range []struct{ codec, stored, shown string }{
		{"json", `{"b": 1.00,"a":2}`, `{"b": 1.00,"a":2}`},
		{"json+v2", `[1]`, `[1]`},
		{"json+v2", "\x01[1]", `[1]`},
		{"json", "\x02[1]", `"\u0002[1]"`},
		{"string", "Łukasz & co", `"Łukasz & co"`},
		{"int64", "\x80\x00\x00\x00\x00\x00\x00\x07", `7`},
		{"int64", "short", `"short"`},
		{"bytes", "\xff\x00", `{"base64":"/wA="}`},
	} {
		if got := string(decoded(c.codec, []byte(c.stored))); got != c.shown {
			t.Errorf("%s %q is shown as %s, want %s", c.codec, c.stored, got, c.shown)
		}
	}
	for _, c := range []struct{ codec, typed string }{{"string", "priya"}, {"int64", "-7"}, {"bytes", "base64:/wA="}} {
		key, err := encodeKey(c.codec, c.typed)
		if got := keyText(decoded(c.codec, key)); err != nil || got != c.typed {
			t.Errorf("%s %q comes back as %q, %v", c.codec, c.typed, got, err)
		}
	}
	if _, err := encodeKey("int64", "x"); err == nil {
		t.Error("a text is no int64 key")
	}
}
