package pipelinetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/internal/devbroker"
	"github.com/tallystick/tallystick/internal/faultnet"
	"github.com/tallystick/tallystick/internal/session"
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/topics"
)

// plan is one run: how the inputs come, and what happens meanwhile.
type plan struct {
	cuts    []int // where a group of inputs ends; the next one comes when everything rests
	workers int
	restart bool   // a new process for each group
	quick   bool   // commits soon: there are many groups
	point   *point // where the first process is struck; nil = nowhere
}

func (p plan) fate() fate {
	if p.point == nil {
		return lives
	}
	return p.point.mode.fate
}

// run is a broker of its own with the processes of one plan. One goroutine owns it; processes reach it by channels.
type run struct {
	k       *kit
	plan    plan
	dir     string
	broker  *devbroker.Broker
	client  *kgo.Client // no fault concerns it
	live    []*process
	gone    []*process // killed ones, and one that stood still
	asleep  *process
	late    time.Time // until then a request is under way
	started int
	ids     map[string]bool // instances
	reached bool

	strikes chan *process
	failed  chan error
	moved   chan struct{}
}

// carry carries a plan out and returns what is left in the topics.
func (k *kit) carry(ctx context.Context, pl plan) (out outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.Timeout)
	defer cancel()
	r := &run{k: k, plan: pl, ids: map[string]bool{}, strikes: make(chan *process, 16), failed: make(chan error, 16), moved: make(chan struct{}, 1)}
	if err := r.open(ctx); err != nil {
		return out, err
	}
	defer r.close()
	sent, err := r.last(ctx)
	if err != nil {
		return out, err
	}
	if out, err = r.read(ctx); err != nil {
		return out, fmt.Errorf("read what the run left: %w", err)
	}
	out.sent, out.reached = sent, r.reached
	return out, nil
}

func (r *run) open(ctx context.Context) (err error) {
	if r.dir, err = os.MkdirTemp(r.k.dir, "run-"); err != nil {
		return err
	}
	if r.broker, err = devbroker.Start(devbroker.Options{MinSessionTimeout: 100 * time.Millisecond}); err != nil {
		return err
	}
	r.client, err = kgo.NewClient(kgo.SeedBrokers(r.broker.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.DisableClientMetrics())
	if err == nil {
		_, err = topics.NewAdmin(r.client).Apply(ctx, r.k.build().Topics(), rules(r.k.cfg.Partitions))
	}
	if err != nil {
		r.close()
	}
	return err
}

func (r *run) close() {
	for _, p := range append(r.live, r.gone...) {
		p.kill()
		r.k.ended.Go(func() { <-p.done })
	}
	if r.client != nil {
		r.client.Close()
	}
	r.broker.Close()
}

// last feeds the inputs, group by group, and ends the processes when everything rests. It returns how many requests of each
// kind the first process sent, when it was left in peace.
func (r *run) last(ctx context.Context) (map[kmsg.Key]int, error) {
	var first *process
	from := 0
	for i, to := range r.plan.cuts {
		if err := r.feed(ctx, r.k.inputs[from:to]); err != nil {
			return nil, err
		}
		if i == 0 { // it finds all of its first inputs at once
			first = r.enter(ctx, "one", r.firstPoint())
		} else if r.plan.restart && i%(1+len(r.plan.cuts)/maxPerStep) == 0 {
			if err := r.leave(r.live[0]); err != nil {
				return nil, err
			}
			r.enter(ctx, "one", nil)
		}
		if err := r.rest(ctx); err != nil {
			return nil, err
		}
		from = to
	}
	for len(r.live) > 0 {
		if err := r.leave(r.live[0]); err != nil {
			return nil, err
		}
	}
	select {
	case err := <-r.failed:
		return nil, err
	default:
	}
	if r.plan.point != nil {
		return nil, nil // what was killed may still be sending
	}
	return first.sent, nil
}

// enter starts a process under a name.
func (r *run) enter(ctx context.Context, instance string, at *point) *process {
	r.ids[instance] = true
	return r.start(ctx, instance, at)
}

// firstPoint is where the first process is struck. When it is its successor that matters, that is where a commit's answer gets lost.
func (r *run) firstPoint() *point {
	if r.plan.fate() == restartsTwice {
		return lostCommit()
	}
	return r.plan.point
}

// leave stops a process in order and waits for its end.
func (r *run) leave(p *process) error {
	p.stop()
	select {
	case <-p.done:
	case <-time.After(r.k.cfg.Timeout):
		return fmt.Errorf("process %s does not end within %s of its stop\n%s", p.instance, r.k.cfg.Timeout, p.log.String())
	}
	r.remove(p)
	if p.err != nil && !errors.Is(p.err, pipeline.ErrNotDrained) && !p.spent.Load() {
		return fmt.Errorf("process %s ended: %w\n%s", p.instance, p.err, p.log.String())
	}
	return nil
}

func (r *run) remove(p *process) {
	for i, q := range r.live {
		if q == p {
			r.live = append(r.live[:i:i], r.live[i+1:]...)
		}
	}
}

func (r *run) feed(ctx context.Context, inputs []put) error {
	records := make([]*kgo.Record, len(inputs))
	for i, in := range inputs {
		records[i] = &kgo.Record{Topic: in.topic, Partition: in.partition, Key: in.key, Value: in.value, Headers: kgoHeaders(in.headers), Timestamp: time.UnixMilli(in.at)}
	}
	if err := r.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("feed the inputs: %w", err)
	}
	return nil
}

func kgoHeaders(headers []record.Header) (out []kgo.RecordHeader) {
	for _, h := range headers {
		out = append(out, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return out
}

// rest waits until the group has committed every offset of every input, and deals with those who are struck meanwhile.
func (r *run) rest(ctx context.Context) error {
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case err := <-r.failed:
			return err
		case p := <-r.strikes:
			r.react(ctx, p)
			last = time.Now()
			continue
		case <-r.moved:
			last = time.Now()
		case <-tick.C:
		case <-ctx.Done():
			return r.stuck()
		}
		done, err := r.idle(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			return err
		case done && r.asleep != nil:
			r.wake()
		case done && time.Now().Before(r.late): // wait for what sits in a socket, and for what it does
		case done:
			return nil
		case time.Since(last) > evictAfter:
			_, _ = devbroker.Evict(ctx, r.client, r.k.app, r.members()) // when it can't, the next time may
			last = time.Now()
		}
	}
}

// evictAfter is longer than any session and rebalance here: a group that still waits is one that the embedded broker forgot.
const evictAfter = 6 * time.Second

func (r *run) stuck() error {
	text := ""
	for _, p := range r.live {
		text += fmt.Sprintf("\nprocess %s, %s", p.instance, p.log.String())
	}
	return fmt.Errorf("the inputs are not processed within %s: does a handler block, or is the machine overloaded? Then set a longer CrashConfig.Timeout%s", r.k.cfg.Timeout, text)
}

func (r *run) members() map[string]bool {
	alive := map[string]bool{}
	for _, p := range r.live {
		for i := range r.plan.workers {
			alive[session.InstanceID(p.instance, i)] = true
		}
	}
	return alive
}

// react replaces who was struck.
func (r *run) react(ctx context.Context, p *process) {
	f := r.plan.fate()
	if f == restartsTwice && r.started == 1 {
		r.bury(p)
		r.enter(ctx, "one", r.plan.point)
		return
	}
	if r.reached = true; r.plan.point.mode.deed == faultnet.DelayRequest {
		r.late = time.Now().Add(lateBy + 50*time.Millisecond)
	}
	switch f {
	case lives:
	case restarts, restartsTwice:
		r.bury(p)
		r.enter(ctx, "one", nil)
	case taken:
		r.bury(p)
		r.enter(ctx, "two", nil)
	case frozen:
		r.asleep = p
		r.enter(ctx, "two", nil)
	}
}

func (r *run) bury(p *process) {
	r.remove(p)
	r.gone = append(r.gone, p)
}

// wake lets a process go on that was taken over, and gives it the time to do harm.
func (r *run) wake() {
	p := r.asleep
	r.asleep = nil
	for len(r.moved) > 0 {
		<-r.moved
	}
	p.net.Thaw()
	select {
	case <-r.moved:
	case <-p.done:
	case <-time.After(takenOverTimeout):
	}
}

// progress notes that something happened.
func (r *run) progress() {
	select {
	case r.moved <- struct{}{}:
	default:
	}
}

// fail notes what must not happen; the first few are enough.
func (r *run) fail(err error) {
	select {
	case r.failed <- err:
	default:
	}
}

// idle reports whether the group has committed every offset of every input, the pipeline's own included. Offsets are read before
// ends: who has read all that there was writes no more.
func (r *run) idle(ctx context.Context) (bool, error) {
	adm := kadm.NewClient(r.client)
	offsets, err := adm.FetchOffsets(ctx, r.k.app)
	if err != nil {
		return false, nil //nolint:nilerr // a group that does not exist yet, or an offset that is not stable: asked again
	}
	ends, err := adm.ListEndOffsets(ctx, r.k.inputTopics...)
	if err != nil {
		return false, fmt.Errorf("end offsets: %w", err)
	}
	all := true
	ends.Each(func(end kadm.ListedOffset) {
		at, ok := offsets.Lookup(end.Topic, end.Partition)
		all = all && (end.Offset == 0 || ok && at.At == end.Offset)
	})
	return all, nil
}
