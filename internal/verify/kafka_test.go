package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// broker is an embedded broker with a job's topics, and what writes to them.
type broker struct {
	t       testing.TB
	opts    []kgo.Opt
	admin   *kadm.Client
	w       *world
	cluster *kfake.Cluster
	reader  *kafka
}

func newBroker(t testing.TB, partitions int32) *broker {
	t.Helper()
	w := newWorld(partitions)
	c, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(partitions, w.topics.Input, w.topics.Updates, w.topics.Skipped, w.topics.DeadLetters, w.topics.State))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	b := &broker{t: t, opts: []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}, w: w, cluster: c}
	b.admin = kadm.NewClient(b.client())
	return b
}

func (b *broker) client(more ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	c, err := kgo.NewClient(append(slices.Clone(b.opts), more...)...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(c.Close)
	return c
}

func (b *broker) producer(id string) *kgo.Client {
	return b.client(kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

// transact writes records in one transaction, which ends as told; nil leaves it open.
func (b *broker) transact(c *kgo.Client, end *kgo.TransactionEndTry, recs ...*kgo.Record) {
	b.t.Helper()
	ctx := b.t.Context()
	if err := c.BeginTransaction(); err != nil {
		b.t.Fatal(err)
	}
	if err := c.ProduceSync(ctx, recs...).FirstErr(); err != nil {
		b.t.Fatal(err)
	}
	if end == nil {
		return
	}
	if err := c.EndTransaction(ctx, *end); err != nil {
		b.t.Fatal(err)
	}
}

var (
	committed = kgo.TryCommit
	aborted   = kgo.TryAbort
)

func copies(log []*kgo.Record) (out []*kgo.Record) {
	for _, r := range log {
		out = append(out, &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp})
	}
	return out
}

// upstream sends the events of a partition, one transaction each, with an aborted one before every third.
func (b *broker) upstream(c *kgo.Client, p int32, events []in) {
	b.t.Helper()
	scratch := newWorld(b.w.partitions)
	for i, e := range events {
		r := copies([]*kgo.Record{scratch.send(p, e)})[0]
		if i%3 == 0 {
			b.transact(c, &aborted, &kgo.Record{Topic: r.Topic, Partition: p, Key: r.Key, Value: []byte("aborted")})
		}
		b.transact(c, &committed, r)
	}
}

// run lets the simple job process events that stand in the broker, and writes its outcomes there, each transaction followed by
// an aborted one.
func (b *broker) run(c *kgo.Client, p int32, events []in) {
	b.t.Helper()
	j := b.w.jobs[p]
	offset := b.w.nextInput(p)
	for _, e := range events {
		for {
			rec := b.record(p, offset)
			offset++
			if rec != nil {
				r := b.w.append(rec.Topic, p, *rec)
				j.process(e, r)
				break
			}
		}
	}
	j.next = b.end(b.w.topics.Input, p)
	j.commit()
	outcomes := b.w.take(p)
	b.transact(c, &committed, copies(outcomes)...)
	b.transact(c, &aborted, copies(outcomes)...)
	b.commit(p)
}

// nextInput is the offset behind the last input that the job has seen.
func (w *world) nextInput(p int32) int64 {
	log := w.logs[w.topics.Input][p]
	if len(log) == 0 {
		return 0
	}
	return log[len(log)-1].Offset + 1
}

// take returns what a job wrote since the last call.
func (w *world) take(p int32) (out []*kgo.Record) {
	for _, topic := range []string{w.topics.Updates, w.topics.Skipped, w.topics.DeadLetters, w.topics.State} {
		out = append(out, w.logs[topic][p]...)
		w.logs[topic][p] = nil
	}
	return out
}

func (b *broker) record(p int32, offset int64) *kgo.Record {
	b.t.Helper()
	r, err := b.kafka().lookup(b.t.Context(), b.w.topics.Input, p, offset)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *broker) kafka() *kafka {
	if b.reader == nil {
		b.reader = &kafka{client: b.client(), app: testApp, input: b.w.topics.Input, compacted: b.w.topics.State, patience: 5 * time.Second, topics: map[string]kadm.TopicDetail{}}
	}
	return b.reader
}

func (b *broker) end(topic string, p int32) int64 {
	b.t.Helper()
	end, err := b.kafka().offset(b.t.Context(), topic, p, atEnd)
	if err != nil {
		b.t.Fatal(err)
	}
	return end
}

func (b *broker) commit(p int32) {
	b.t.Helper()
	c := b.w.commits[p]
	var o kadm.Offsets
	o.Add(kadm.Offset{Topic: b.w.topics.Input, Partition: p, At: c.next, LeaderEpoch: -1, Metadata: c.raw})
	if _, err := b.admin.CommitOffsets(b.t.Context(), testApp, o); err != nil {
		b.t.Fatal(err)
	}
}

func (b *broker) config() Config {
	return Config{
		Opts: b.opts, App: testApp, Window: testWindow, AutoCreate: true, Patience: time.Second,
		Now: func() time.Time { return time.UnixMilli(testNow) }, Raw: true,
	}
}

func (b *broker) verify() (Report, error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	return Run(ctx, b.config())
}

func (b *broker) accepts() Report {
	b.t.Helper()
	r, err := b.verify()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, v := range r.Violations {
		b.t.Error(v)
	}
	return r
}

func (b *broker) events(p int32, n int) (out []in) {
	for i := range n {
		e := in{id: fmt.Sprintf("%d-%d", p, i), kind: "credit", account: b.w.accountOn(p, i%3), cents: int64(i + 1), at: int64(100_000 - i)}
		if i%5 == 4 {
			e.id = fmt.Sprintf("%d-%d", p, i-1) // a conflict
		}
		out = append(out, e)
	}
	return out
}

// filled is a broker with a correct history of two partitions out of three, each topic ending in what is no record.
func filled(t testing.TB) *broker {
	b := newBroker(t, 3)
	up, job := b.producer("up"), b.producer("job")
	for p := range int32(2) {
		events := b.events(p, 12)
		b.upstream(up, p, events)
		b.transact(up, &aborted, &kgo.Record{Topic: b.w.topics.Input, Partition: p, Key: []byte("x"), Value: []byte("aborted tail")})
		b.run(job, p, events[:7])
		b.run(job, p, events[7:])
	}
	return b
}

func TestRunAcceptsAHistoryWithAbortsAndControlRecordTails(t *testing.T) {
	b := filled(t)
	r := b.accepts()
	if r.Inputs != 24 || r.Applied != 20 || r.DeadLetters["conflict"] != 4 || r.NotYetProcessed != 0 || r.Partitions != 3 {
		t.Errorf("%+v", r)
	}
}

func TestRunCountsWhatIsNotYetProcessed(t *testing.T) {
	b := filled(t)
	b.upstream(b.producer("up"), 2, b.events(2, 4))
	if r := b.accepts(); r.NotYetProcessed != 4 || r.Inputs != 24 {
		t.Errorf("%+v", r)
	}
}

func TestRunReportsAnOpenTransactionBehindTheCut(t *testing.T) {
	b := filled(t)
	zombie := b.producer("zombie")
	b.transact(zombie, nil, &kgo.Record{Topic: b.w.topics.Updates, Partition: 1, Value: []byte("open")},
		&kgo.Record{Topic: b.w.topics.State, Partition: 1, Key: []byte("\x05extra1"), Value: []byte("open")})
	r := b.accepts()
	if len(r.OpenTransactions) != 2 || r.OpenTransactions[0].Topic != b.w.topics.State || r.OpenTransactions[1].Topic != b.w.topics.Updates {
		t.Errorf("%+v", r.OpenTransactions)
	}
}

func TestRunIsUndecidedWhenAnOpenTransactionHidesAnOutcome(t *testing.T) {
	b := newBroker(t, 1)
	zombie, up := b.producer("zombie"), b.producer("up")
	events := b.events(0, 3)
	b.upstream(up, 0, events)
	b.transact(zombie, nil, &kgo.Record{Topic: b.w.topics.Updates, Value: []byte("open")})
	b.run(b.producer("job"), 0, events)
	r, err := b.verify()
	u, ok := errors.AsType[*UndecidedError](err)
	if !ok || !strings.Contains(u.Reason, "ledger-updates/0 has a transaction open since offset 0") || !r.OK() {
		t.Errorf("error %v, %+v", err, r)
	}
}

func TestRunFindsWhatIsWrong(t *testing.T) {
	b := filled(t)
	again := []in{{id: "lost", kind: "credit", account: b.w.accountOn(0, 0), cents: 1, at: 1}}
	b.upstream(b.producer("up"), 0, again)
	b.w.jobs[0].next = b.end(b.w.topics.Input, 0)
	b.w.jobs[0].commit()
	b.transact(b.producer("job"), &committed, copies(b.w.take(0))...)
	b.commit(0)
	r, err := b.verify()
	if err != nil || r.Counts[Lost] != 1 {
		t.Fatalf("error %v, %+v", err, r)
	}
	if !strings.Contains(r.Violations[0].Evidence[0].String(), `"event_id":"lost"`) {
		t.Errorf("error %v, %v", err, r.Violations)
	}
}

func TestRunNamesAMissingTopic(t *testing.T) {
	b := newBroker(t, 1)
	cfg := b.config()
	cfg.Topics.Updates = "nowhere"
	if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), `topic "nowhere" does not exist`) {
		t.Error(err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	b := filled(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, b.config()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestRunRefusesAnIncompleteConfiguration(t *testing.T) {
	_, err := Run(t.Context(), Config{Workers: -1, Partitioner: "random"})
	for _, want := range []string{"App is empty", "Window is 0s", "Workers -1", `Partitioner is "random"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in %v", want, err)
		}
	}
}

// A broker that is slow to read answers with nothing: that is no proof that nothing is there.
func TestALookUpIsRepeatedWhenTheAnswerIsEmpty(t *testing.T) {
	b := filled(t)
	k := b.kafka()
	log := b.w.logs[b.w.topics.Input][0]
	for _, empty := range []int{0, 1, 2} {
		left := empty
		b.cluster.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
			b.cluster.KeepControl()
			if left--; left < 0 {
				return nil, nil, false
			}
			asked := r.(*kmsg.FetchRequest)
			p := kmsg.NewFetchResponseTopicPartition()
			p.HighWatermark, p.LastStableOffset = 1000, 1000
			topic := kmsg.NewFetchResponseTopic()
			topic.Topic, topic.TopicID, topic.Partitions = asked.Topics[0].Topic, asked.Topics[0].TopicID, []kmsg.FetchResponseTopicPartition{p}
			resp := r.ResponseKind().(*kmsg.FetchResponse)
			resp.Topics = []kmsg.FetchResponseTopic{topic}
			return resp, nil, true
		})
		rec, err := k.lookup(t.Context(), b.w.topics.Input, 0, log[0].Offset)
		if err != nil || rec == nil || rec.Offset != log[0].Offset || left >= 0 {
			t.Errorf("%d empty answers: %v %v", empty, rec, err)
		}
	}
}

// A broker that is gone is no verdict, and ends the audit after the patience for one partition, not for each.
func TestRunSaysThatItCannotRead(t *testing.T) {
	b := filled(t)
	k := b.kafka()
	k.patience = 100 * time.Millisecond
	for topic := range b.w.logs {
		if _, err := k.detail(t.Context(), topic, true); err != nil {
			t.Fatal(err)
		}
	}
	b.cluster.Close()
	r := b.w.rules()
	began := time.Now()
	report, err := auditAll(t.Context(), r, k, 3, 1)
	if _, undecided := errors.AsType[*UndecidedError](err); err == nil || undecided || !report.OK() {
		t.Errorf("error %v, %+v", err, report)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestTheReportIsJSON(t *testing.T) {
	b := filled(t)
	zombie := b.producer("zombie")
	b.transact(zombie, nil, &kgo.Record{Topic: b.w.topics.Updates, Partition: 1, Value: []byte("open")})
	b.transact(b.producer("forger"), &committed, &kgo.Record{Topic: b.w.topics.Updates, Partition: 0, Value: []byte("\xff")})
	r, err := b.verify()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(&r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"violation_counts":{"ghost":1}`, `"verdict":"ghost"`, `"role":"outcome","topic":"ledger-updates","partition":0,"offset":`, `"key":null,"value":"\"\\xff\""`,
		`"open_transactions":[{"topic":"ledger-updates","partition":1,"last_stable_offset":`, `"sums":{"EUR":{"credits":`, `"dead_letters":{"conflict":4}`, `"not_yet_processed":0`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}
