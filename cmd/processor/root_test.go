package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tallystick/tallystick/pipeline"
)

func TestExitCodesOfUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		code exitCode
		says string // on stderr
	}{
		{nil, exitOK, ""},
		{[]string{"--help"}, exitOK, ""},
		{[]string{"version"}, exitOK, ""},
		{[]string{"version", "x"}, exitUsage, `processor version takes no argument, got "x"`},
		{[]string{"versoin"}, exitUsage, "did you mean version?"},
		{[]string{"frobnicate"}, exitUsage, `unknown command "frobnicate"`},
		{[]string{"config", "shwo"}, exitUsage, "did you mean show?"},
		{[]string{"version", "--nope"}, exitUsage, "unknown flag: --nope"},
		{[]string{"version", "-o", "xml"}, exitUsage, `"xml" is no output format`},
		{[]string{"config", "show", "--commit-interval-ms", "x"}, exitUsage, "not a whole number"},
		{[]string{"demo", "-o", "json"}, exitUsage, "processor demo has no -o"},
		{[]string{"config", "init", "-o", "json"}, exitUsage, "processor config init has no -o"},
		{[]string{"run", "-o", "jsonl"}, exitUsage, "processor run has no -o"},
		{[]string{"tail"}, exitUsage, "processor tail takes one topic"},
		{[]string{"fence"}, exitUsage, "processor fence takes one instance, got 0 arguments"},
		{[]string{"dlq", "show", "0/1", "0/2"}, exitUsage, "processor dlq show takes one position, got 2 arguments"},
		{[]string{"feed", "a", "b"}, exitUsage, "processor feed takes one file at most, got 2"},
		{[]string{"tail", "a", "b"}, exitUsage, "processor tail takes one topic"},
		{[]string{"tail", "a", "--limit", "-1"}, exitUsage, "--limit -1"},
		{[]string{"tail", "a", "--limit", "x"}, exitUsage, `--limit "x": not a whole number`},
		{[]string{"tail", "a", "-p", "x"}, exitUsage, `--partition "x": not whole numbers separated by commas`},
		{[]string{"verify", "--patience", "40"}, exitUsage, `--patience "40": not a duration with its unit, such as 40s or 5m`},
		{[]string{"demo", "--keep=maybe"}, exitUsage, `--keep "maybe": neither true nor false`},
		{[]string{"tail", "a", "-f", "%v", "-o", "json"}, exitUsage, "--format and -o json"},
		{[]string{"--version"}, exitOK, ""},
	} {
		cli, stdout, stderr := newTestCLI()
		if code := cli.execute(t.Context(), c.args); code != c.code {
			t.Errorf("%q exits %d, want %d", c.args, code, c.code)
		}
		if !strings.Contains(stderr.String(), c.says) {
			t.Errorf("%q says %q, want %q", c.args, stderr, c.says)
		}
		if c.code != exitOK && (stdout.Len() > 0 || strings.Count(stderr.String(), "error: ") != 1 || !strings.Contains(stderr.String(), "\nhint: ")) {
			t.Errorf("%q prints %q on stdout and %q on stderr", c.args, stdout, stderr)
		}
	}
}

func TestVersionIsAFlagToo(t *testing.T) {
	var said [2]string
	for i, args := range [][]string{{"version"}, {"--version"}} {
		c, stdout, stderr := newTestCLI()
		if code := c.execute(t.Context(), args); code != exitOK || stderr.Len() > 0 {
			t.Errorf("%q: exit %d: %s", args, code, stderr)
		}
		said[i] = stdout.String()
	}
	if said[0] == "" || said[0] != said[1] {
		t.Errorf("%q and %q", said[0], said[1])
	}
}

func TestExitCodesOfErrors(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, c := range []struct {
		err  error
		code exitCode
		hint string
	}{
		{errors.New("strange"), exitFailed, ""},
		{fail(exitNotFound, errors.New("no such account"), "look again"), exitNotFound, "look again"},
		{fmt.Errorf("read: %w", fail(exitCheckFailed, errors.New("one cent"), "")), exitCheckFailed, ""},
		{fmt.Errorf("topic x: %w", kerr.UnknownTopicOrPartition), exitNotFound, "topics plan"},
		{fmt.Errorf("login: %w", kerr.SaslAuthenticationFailed), exitFailed, "sasl.password"},
		{refused, exitUnavailable, "no broker listens"},
		{fmt.Errorf("dial: %w", x509.HostnameError{Host: "b", Certificate: &x509.Certificate{}}), exitFailed, "advertised.listeners"},
		{&net.DNSError{Err: "no such host", Name: "kafka"}, exitUnavailable, "cannot be resolved"},
		{context.DeadlineExceeded, exitUnavailable, "in time"},
		{fmt.Errorf("topic x: %w", context.DeadlineExceeded), exitUnavailable, "in time"},
		{fmt.Errorf("worker 0: %w", pipeline.ErrDuplicateInstance), exitFailed, "one of the two goes on"},
		{kerr.NotLeaderForPartition, exitUnavailable, "try again"},
		{fmt.Errorf("topic a b: %w", kerr.InvalidTopicException), exitUsage, "a topic name"},
		{&fs.PathError{Op: "mkdir", Path: "/proc/x", Err: syscall.ENOENT}, exitFailed, ""},
		{&fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}, exitFailed, ""},
	} {
		var stderr bytes.Buffer
		if code := exitOf(t.Context(), &stderr, c.err, false); code != c.code {
			t.Errorf("%v exits %d, want %d", c.err, code, c.code)
		}
		if !strings.Contains(stderr.String(), "error: "+c.err.Error()) || !strings.Contains(stderr.String(), c.hint) || (c.hint == "") != !strings.Contains(stderr.String(), "hint:") {
			t.Errorf("%v prints %q, want the hint %q", c.err, stderr.String(), c.hint)
		}
	}
}

func TestSilentCodesPrintNothing(t *testing.T) {
	var stderr bytes.Buffer
	if code := exitOf(t.Context(), &stderr, silent(exitCheckFailed), false); code != exitCheckFailed || stderr.Len() > 0 {
		t.Errorf("exit %d, %q", code, stderr.String())
	}
}

func TestInterruptedWorkExits130(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(interruptedError{syscall.SIGTERM})
	var stderr bytes.Buffer
	if code := exitOf(ctx, &stderr, fmt.Errorf("read: %w", context.Canceled), false); code != exitInterrupted {
		t.Errorf("exit %d", code)
	}
	if want := "error: stopped by signal: terminated\n"; stderr.String() != want {
		t.Errorf("prints %q", stderr.String())
	}
}

func TestAStopThatCouldNotCommitSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(interruptedError{syscall.SIGTERM})
	var stderr bytes.Buffer
	code := exitOf(ctx, &stderr, fmt.Errorf("worker 0: %w: %w", pipeline.ErrNotDrained, context.Canceled), false)
	if code != exitFailed || !strings.Contains(stderr.String(), "did not commit") || !strings.Contains(stderr.String(), "nothing is lost") {
		t.Errorf("exit %d: %s", code, stderr.String())
	}
}

func TestErrorIsRedOnATerminalAlone(t *testing.T) {
	for colour, want := range map[bool]string{true: "\x1b[31merror:\x1b[0m x\n", false: "error: x\n"} {
		var stderr bytes.Buffer
		if exitOf(t.Context(), &stderr, errors.New("x"), colour); stderr.String() != want {
			t.Errorf("prints %q, want %q", stderr.String(), want)
		}
	}
}

func TestLongErrorsAreIndented(t *testing.T) {
	var stderr bytes.Buffer
	exitOf(t.Context(), &stderr, errors.Join(errors.New("one"), errors.New("two")), false)
	if stderr.String() != "error: one\n  two\n" {
		t.Errorf("prints %q", stderr.String())
	}
}

type account struct {
	ID      string `json:"id"`
	Balance string `json:"balance"`
}

func TestListsHaveThreeForms(t *testing.T) {
	items := []account{{"priya", "12.50"}, {"Łukasz & co", "0.00"}}
	for format, want := range map[outputFormat]string{
		"":          "account      balance\npriya        12.50\nŁukasz & co  0.00\n",
		formatTable: "account      balance\npriya        12.50\nŁukasz & co  0.00\n",
		formatJSON:  "[\n  {\n    \"id\": \"priya\",\n    \"balance\": \"12.50\"\n  },\n  {\n    \"id\": \"Łukasz & co\",\n    \"balance\": \"0.00\"\n  }\n]\n",
		formatJSONL: "{\"id\":\"priya\",\"balance\":\"12.50\"}\n{\"id\":\"Łukasz & co\",\"balance\":\"0.00\"}\n",
	} {
		c, stdout, _ := newTestCLI()
		c.format = format
		err := printList(c, []string{"account", "balance"}, items, func(a account) []string { return []string{a.ID, a.Balance} })
		if err != nil || stdout.String() != want {
			t.Errorf("-o %s prints %q, want %q (%v)", format, stdout, want, err)
		}
	}
}

func TestEmptyListsAreVisible(t *testing.T) {
	for format, want := range map[outputFormat]string{formatTable: "account\n", formatJSON: "[]\n", formatJSONL: ""} {
		c, stdout, _ := newTestCLI()
		c.format = format
		if err := printList(c, []string{"account"}, nil, func(account) []string { return nil }); err != nil || stdout.String() != want {
			t.Errorf("-o %s prints %q (%v)", format, stdout, err)
		}
	}
}

func TestNoColourOffTerminalOrByWish(t *testing.T) {
	c, stdout, _ := newTestCLI()
	if c.colour(stdout) {
		t.Error("a buffer is no terminal")
	}
	if c, _, _ = newTestCLI("NO_COLOR=1"); c.colour(os.Stdout) {
		t.Error("NO_COLOR is set")
	}
}

func TestProgressLinesSayRateAndTimeLeft(t *testing.T) {
	for _, c := range []struct {
		done, total int64
		took        time.Duration
		want        string
	}{
		{500, 2000, 5 * time.Second, "feed 500 of 2000, 100/s, 15s left"},
		{500, 0, 5 * time.Second, "feed 500, 100/s"},
		{0, 2000, 5 * time.Second, "feed 0, 0/s"},
		{2100, 2000, 5 * time.Second, "feed 2100 of 2000, 420/s, 0s left"},
	} {
		if got := progressLine("feed", c.done, c.total, c.took); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestProgressIsSilentWhenShort(t *testing.T) {
	c, _, stderr := newTestCLI()
	p := newProgress(c, "feed", 10)
	p.add(10)
	p.done()
	if stderr.Len() > 0 {
		t.Errorf("prints %q", stderr)
	}
}
