package broker

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// A test that kills a member of a group needs one in a process of its own: the test binary, started
// again with these variables.
const (
	envBench    = "BROKER_WORKER"          // seeds, input, output, group, transactional id
	envInstance = "BROKER_WORKER_INSTANCE" // group.instance.id, may be empty
	envSession  = "BROKER_WORKER_SESSION"  // session timeout
	envDie      = "BROKER_WORKER_DIE"      // where the sixth transaction dies: produced, offsets, or never
)

const lastCommit = 5 // then the worker dies, if it is to

func TestMain(m *testing.M) {
	if w := os.Getenv(envBench); w != "" {
		work(w)
		return
	}
	if h := os.Getenv(envHop); h != "" {
		runHops(h)
		return
	}
	os.Exit(m.Run())
}

// work commits one input record per transaction and prints a line for each.
func work(encoded string) {
	f := strings.Split(encoded, " ")
	b := bench{seeds: strings.Split(f[0], ","), in: f[1], out: f[2], group: f[3], id: f[4]}
	session, err := time.ParseDuration(os.Getenv(envSession))
	check(err)
	opts := append(b.options(), kgo.SessionTimeout(session), kgo.HeartbeatInterval(session/4))
	if i := os.Getenv(envInstance); i != "" {
		opts = append(opts, kgo.InstanceID(i))
	}
	end := &deadEnd{}
	s, err := kgo.NewGroupTransactSession(append(opts, kgo.Dialer(end.dial))...)
	check(err)
	ctx := context.Background()
	_, _, err = s.Client().ProducerID(ctx) // fences the dead self before anything else
	check(err)
	for n := 1; ; {
		s.AllowRebalance()
		if s.PollRecords(ctx, 1).NumRecords() == 0 {
			continue
		}
		dies := n > lastCommit
		check(s.Begin())
		check(s.ProduceSync(ctx, &kgo.Record{Topic: b.out, Value: []byte("v")}).FirstErr())
		if dies && os.Getenv(envDie) == "produced" {
			dieNow()
		}
		end.armed = dies && os.Getenv(envDie) == "offsets"
		ok, err := s.End(ctx, kgo.TryCommit)
		check(err)
		if ok {
			fmt.Println("committed")
			n++
		}
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func dieNow() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// deadEnd kills the process instead of sending EndTxn: the offsets are in the transaction by then.
type deadEnd struct{ armed bool }

func (d *deadEnd) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var n net.Dialer
	c, err := n.DialContext(ctx, network, addr)
	return &deadConn{Conn: c, end: d}, err
}

type deadConn struct {
	net.Conn
	end *deadEnd
}

func (c *deadConn) Write(b []byte) (int, error) {
	if c.end.armed && len(b) >= 8 && kmsg.Key(binary.BigEndian.Uint16(b[4:])) == kmsg.EndTxn {
		dieNow()
	}
	return c.Conn.Write(b)
}

// A worker is the child, and a channel with one value per commit; the channel is closed at its end.
type worker struct {
	*kafkatest.Process
	commits <-chan struct{}
}

func (b bench) work(t *testing.T, instance string, session time.Duration, die string) worker {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(),
		envBench+"="+strings.Join([]string{strings.Join(b.seeds, ","), b.in, b.out, b.group, b.id}, " "),
		envInstance+"="+instance, envSession+"="+session.String(), envDie+"="+die)
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	p, err := kafkatest.Launch(cmd)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return worker{Process: p, commits: lines(r)}
}

func lines(r *os.File) <-chan struct{} {
	out := make(chan struct{}, 1000)
	go func() {
		defer close(out)
		defer r.Close()
		for s := bufio.NewScanner(r); s.Scan(); {
			out <- struct{}{}
		}
	}()
	return out
}
