package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// startLimit is generous: a cold class archive on a busy machine costs seconds, a hang costs this.
const startLimit = 60 * time.Second

// Options describe a cluster. The zero value with a FirstPort is one small broker.
type Options struct {
	// Brokers is 1 (the default) or 3. Three replicate everything three times, two in sync.
	Brokers int
	// FirstPort is the first of the 200 ports of the test package (see the package text).
	FirstPort int
	// Config are broker properties over the small broker's own.
	Config map[string]string
	// Features are finalized when the storage is formatted, such as "transaction.version=1".
	Features []string
	// Proxied lets brokers reach each other, and themselves, only through Broker.Between.
	Proxied bool
	// Listeners are more doors, of a single broker without a proxy.
	Listeners []Listener
	// DiskMiB gives each broker a disk of its own of so many MiB (see Broker.FillDisk), which needs root and a tmpfs: where none
	// can be mounted, Start skips the test. 0 is no disk of its own. Three brokers need some 40 MiB each.
	DiskMiB int
	// Users are name and password of clients of Broker.SASLAddr, whom ACLs bind. Other clients are
	// not bound by any.
	Users map[string]string
}

// A Cluster is the running brokers of one test.
type Cluster struct {
	Brokers []*Broker

	options Options
	slot    slot
	dir     string
	doors   map[string]*Proxy
}

// Seeds returns the addresses of KAFKA_BROKERS (comma separated) if it is set, else those of a
// cluster of the test's own. For tests that leave the broker's process alone.
func Seeds(t testing.TB, o Options) []string {
	t.Helper()
	if s := os.Getenv("KAFKA_BROKERS"); s != "" {
		return strings.Split(s, ",")
	}
	return Start(t, o).Seeds()
}

// Start returns a ready cluster that ends with the test. Its folder, with the brokers' logs, is
// kept and named when the test failed.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	tc := need(t)
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	c, err := open(ctx, tc, o)
	if errors.Is(err, errNoDisk) {
		t.Skipf("a broker's disk of its own cannot be mounted here: run `go test` as root, with CAP_SYS_ADMIN in a container: %v", err)
	}
	if err != nil {
		t.Fatalf("start Kafka: %v", err)
	}
	t.Cleanup(func() { c.close(t) })
	return c
}

// Open is Start for a program: it returns a ready cluster, which the caller closes, or what is missing here.
func Open(ctx context.Context, o Options) (*Cluster, error) {
	tc, err := findToolchain()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return open(ctx, tc, o)
}

// Close ends the brokers and removes their data.
func (c *Cluster) Close() error {
	c.kill()
	c.slot.lock.Close()
	return os.RemoveAll(c.dir)
}

func open(ctx context.Context, tc toolchain, o Options) (*Cluster, error) {
	if o.Brokers == 0 {
		o.Brokers = 1
	}
	s, err := takeSlot(o.FirstPort)
	if err != nil {
		return nil, err
	}
	c, err := openIn(ctx, tc, o, s)
	if err != nil {
		s.lock.Close()
	}
	return c, err
}

func openIn(ctx context.Context, tc toolchain, o Options, s slot) (*Cluster, error) {
	img, err := loadImage(ctx, tc, o.Features, s)
	if err != nil {
		return nil, err
	}
	c, err := newCluster(tc, img, o, s)
	if err != nil {
		return nil, err
	}
	return c, c.start(ctx)
}

// newCluster lays out folders and proxies; nothing runs yet.
func newCluster(tc toolchain, img image, o Options, s slot) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "tallystick-kafka-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: o, slot: s, dir: dir, doors: map[string]*Proxy{}}
	for i := range o.Brokers {
		b, err := newBroker(tc, img, o, s, i, dir)
		if err != nil {
			c.kill()
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		c.Brokers = append(c.Brokers, b)
	}
	return c, nil
}

// start leaves no process behind when it fails.
func (c *Cluster) start(ctx context.Context) error {
	for _, b := range c.Brokers {
		if err := b.Start(); err != nil {
			c.kill()
			return err
		}
	}
	if err := c.ready(ctx); err != nil {
		c.kill()
		return err
	}
	return nil
}

// Seeds are the addresses of all brokers.
func (c *Cluster) Seeds() []string {
	var addrs []string
	for _, b := range c.Brokers {
		addrs = append(addrs, b.Addr)
	}
	return addrs
}

// Broker returns the broker with this node id (1, 2, 3).
func (c *Cluster) Broker(id int32) *Broker { return c.Brokers[id-1] }

func (c *Cluster) kill() {
	for _, b := range c.Brokers {
		b.kill()
	}
}

func (c *Cluster) close(t testing.TB) {
	if t.Failed() {
		c.kill()
		c.slot.lock.Close()
		t.Logf("the brokers' data and logs are kept in %s", c.dir)
		return
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A Broker is one broker process. Only the test's goroutine may start and end it.
type Broker struct {
	// ID is the node id.
	ID int32
	// Addr is where clients dial; SASLAddr wants a name and a password (Options.Users).
	Addr, SASLAddr string
	// Listeners is where the broker listens for each of Options.Listeners, by name.
	Listeners map[string]string
	// Between stands between the brokers and this one; nil unless Options.Proxied.
	Between *Proxy

	run  func() (*Process, error)
	proc *Process
	disk *disk // nil unless Options.DiskMiB
	log  string
}

func newBroker(tc toolchain, img image, o Options, s slot, index int, dir string) (*Broker, error) {
	name := filepath.Join(dir, fmt.Sprintf("broker-%d", index+1))
	var d *disk
	if o.DiskMiB > 0 {
		var err error
		if d, err = newDisk(name, o.DiskMiB); err != nil {
			return nil, err
		}
	}
	b, err := newBrokerIn(tc, img, o, s, index, name)
	if err != nil {
		return nil, errors.Join(err, d.unmount())
	}
	b.disk = d
	return b, nil
}

// newBrokerIn lays out a broker whose data is in the folder of this name.
func newBrokerIn(tc toolchain, img image, o Options, s slot, index int, name string) (*Broker, error) {
	if err := img.copyTo(name, index+1); err != nil {
		return nil, err
	}
	text, err := brokerConfig(o, s, index, name)
	if err != nil {
		return nil, err
	}
	config, logging := name+".properties", name+".log4j2.properties"
	if err := errors.Join(os.WriteFile(config, []byte(text), 0o644), os.WriteFile(logging, []byte(brokerLogging), 0o644)); err != nil {
		return nil, err
	}
	b := &Broker{ID: int32(index + 1), Addr: s.addr(clientPort, index), SASLAddr: s.addr(saslPort, index), Listeners: listenerAddrs(o, s, index), log: name + ".log"}
	b.run = func() (*Process, error) {
		return launchJava(tc, img, b.log, "-Dlog4j2.configurationFile="+logging, "kafka.Kafka", config)
	}
	if o.Proxied {
		var err error
		b.Between, err = NewProxy(s.addr(proxyPort, index), s.addr(internalPort, index))
		return b, err
	}
	return b, nil
}

// brokerLogging is what a broker writes: warnings, and each request that its authorizer denied.
const brokerLogging = `appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1} %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
logger.denied.name = kafka.authorizer.logger
logger.denied.level = info
`

// Log is what the broker has written so far.
func (b *Broker) Log(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(b.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Pid is the broker's process id.
func (b *Broker) Pid() int { return b.proc.Pid() }

// Start starts the broker, for the first time or after Kill; [Cluster.Ready] waits for it.
func (b *Broker) Start() (err error) {
	b.proc, err = b.run()
	return err
}

// Kill sends SIGKILL and waits for the end. The data stays.
func (b *Broker) Kill() { b.proc.Kill() }

// Pause sends SIGSTOP: connections stay, answers don't come.
func (b *Broker) Pause() { b.proc.Pause() }

// Ended reports whether the process has ended, by itself or not.
func (b *Broker) Ended() bool { return b.running() != nil }

// Resume sends SIGCONT.
func (b *Broker) Resume() { b.proc.Resume() }

// Terminate lets the broker shut down in order.
func (b *Broker) Terminate(ctx context.Context) error { return b.proc.Terminate(ctx) }

func (b *Broker) kill() {
	if b.proc != nil {
		b.proc.Kill()
	}
	if b.Between != nil {
		b.Between.Close()
	}
	_ = b.disk.unmount() // what stays mounted shows when its folder is removed
}

// running reports whether the process has ended.
func (b *Broker) running() error {
	select {
	case <-b.proc.Done():
		return &deadBroker{id: b.ID, log: tail(b.log, 2000)}
	default:
		return nil
	}
}

// alive reports why a broker that should answer cannot.
func (b *Broker) alive() error {
	if err := b.running(); err != nil {
		return err
	}
	c, err := net.DialTimeout("tcp", b.Addr, 200*time.Millisecond)
	if err != nil {
		return err
	}
	return c.Close()
}

// deadBroker ends the wait for readiness at once.
type deadBroker struct {
	id  int32
	log string
}

func (e *deadBroker) Error() string {
	return fmt.Sprintf("broker %d has ended; its log ends: %s", e.id, e.log)
}

func tail(file string, n int) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-n):])
}
