package verify

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// answers makes a broker's next fetches from one partition return what it is told, in order; then it answers itself.
func (b *broker) answers(topic string, code []int16, stable int64) {
	id := topicID(b, topic)
	n := 0
	b.cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r := req.(*kmsg.FetchRequest)
		b.cluster.KeepControl()
		if n == len(code) || len(r.Topics) != 1 || r.Topics[0].TopicID != id || r.Topics[0].Partitions[0].Partition != 0 {
			return nil, nil, false
		}
		n++
		resp := r.ResponseKind().(*kmsg.FetchResponse)
		if code[n-1] < 0 { // over its quota: no partition at all
			return resp, nil, true
		}
		p := kmsg.NewFetchResponseTopicPartition()
		p.ErrorCode, p.HighWatermark, p.LastStableOffset = code[n-1], stable, stable
		t := kmsg.NewFetchResponseTopic()
		t.TopicID, t.Partitions = id, []kmsg.FetchResponseTopicPartition{p}
		resp.Topics = []kmsg.FetchResponseTopic{t}
		return resp, nil, true
	})
}

func topicID(b *broker, topic string) [16]byte {
	d, err := b.kafka().detail(b.t.Context(), topic, false)
	if err != nil {
		b.t.Fatal(err)
	}
	return d.ID
}

// readAll reads partition 0 of a topic and returns how many records it had, and where it ended.
func readAll(t *testing.T, b *broker, topic string) (n int, s *kafkaStream) {
	t.Helper()
	opened, err := b.kafka().open(t.Context(), topic, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	s = opened.(*kafkaStream)
	for {
		rec, err := s.peek(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if rec == nil {
			return n, s
		}
		s.pop()
		n++
	}
}

func TestATailThatWasCompactedAwayEnds(t *testing.T) {
	b := filled(t)
	end := b.end(b.w.topics.State, 0)
	b.answers(b.w.topics.State, []int16{0, 0, 0}, end)
	if n, s := readAll(t, b, b.w.topics.State); n != 0 || s.hidden() != nil || s.pos != end {
		t.Errorf("%d records, position %d of %d", n, s.pos, end)
	}
}

func TestOneEmptyAnswerIsNoEnd(t *testing.T) {
	b := filled(t)
	want, _ := readAll(t, b, b.w.topics.State)
	b.answers(b.w.topics.State, []int16{0, 0}, b.end(b.w.topics.State, 0))
	if n, s := readAll(t, b, b.w.topics.State); n != want || n == 0 || s.hidden() != nil {
		t.Errorf("%d records, want %d", n, want)
	}
}

// What is not compacted is all there: a broker that answers with nothing is slow, and is asked again for the time of patience.
func TestNothingIsNoAnswerWhereNothingIsCompacted(t *testing.T) {
	b := filled(t)
	k, ctx := b.kafka(), t.Context()
	topic := b.w.topics.Updates
	want, _ := readAll(t, b, topic)
	end := b.end(topic, 0)
	b.answers(topic, make([]int16, 3*emptyAnswers), end)
	if n, _ := readAll(t, b, topic); n != want || n == 0 {
		t.Errorf("%d records, want %d", n, want)
	}
	b.answers(topic, make([]int16, 3*emptyAnswers), end)
	if rec, err := k.lookup(ctx, topic, 0, 0); err != nil || rec == nil {
		t.Errorf("the look-up has %v, %v", rec, err)
	}
	b.answers(topic, make([]int16, 3*emptyAnswers), end)
	raw, err := k.raw(ctx, topic, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if rec, err := raw.next(ctx); err != nil || rec == nil {
		t.Errorf("the log has %v, %v", rec, err)
	}

	k.patience = 5 * backoff
	s, err := k.open(ctx, topic, 0, 0)
	log, err2 := k.raw(ctx, topic, 0, 0)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	b.answers(topic, make([]int16, 1000), end)
	for name, read := range map[string]func(context.Context) (*kgo.Record, error){
		"stream": s.peek, "log": log.next, "look-up": func(ctx context.Context) (*kgo.Record, error) { return k.lookup(ctx, topic, 0, 0) },
	} {
		rec, err := read(ctx)
		if u, is := errors.AsType[*UndecidedError](err); !is || onlyUndecided(err) || rec != nil || !strings.Contains(u.Reason, "ledger-updates/0 shows nothing at offset 0") {
			t.Errorf("%s: %v, %v", name, rec, err)
		}
	}
}

func TestPassingErrorsAreNotTheEnd(t *testing.T) {
	b := filled(t)
	want, _ := readAll(t, b, b.w.topics.State)
	b.answers(b.w.topics.State, []int16{kerr.NotLeaderForPartition.Code, -1, kerr.UnknownTopicID.Code, -1}, 0)
	if n, _ := readAll(t, b, b.w.topics.State); n != want || n == 0 {
		t.Errorf("%d records, want %d", n, want)
	}
}

func TestARecordDeletedWhileReadingIsAnError(t *testing.T) {
	b := filled(t)
	b.answers(b.w.topics.Updates, []int16{kerr.OffsetOutOfRange.Code}, 0)
	r, err := b.verify()
	if err == nil || !strings.Contains(err.Error(), "run verify again") || !r.OK() {
		t.Errorf("error %v, %v", err, r.Violations)
	}
}

// The first commit of a group is pending: an answer for all partitions would leave it out.
func TestAPendingCommitLeavesItUndecided(t *testing.T) {
	b := filled(t)
	b.cluster.ControlKey(int16(kmsg.OffsetFetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		r := req.(*kmsg.OffsetFetchRequest)
		if !r.RequireStable || len(r.Groups) != 1 || len(r.Groups[0].Topics) != 1 || len(r.Groups[0].Topics[0].Partitions) != 1 {
			t.Error("the request does not name one partition")
		}
		return pendingAnswer(r), nil, true
	})
	r, err := b.verify()
	if u, ok := errors.AsType[*UndecidedError](err); !ok || !strings.Contains(u.Reason, "is pending") || !r.OK() {
		t.Errorf("error %v, %v", err, r.Violations)
	}
}

func pendingAnswer(r *kmsg.OffsetFetchRequest) kmsg.Response {
	resp := r.ResponseKind().(*kmsg.OffsetFetchResponse)
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	p.Partition, p.Offset, p.ErrorCode = r.Groups[0].Topics[0].Partitions[0], -1, kerr.UnstableOffsetCommit.Code
	tp := kmsg.NewOffsetFetchResponseGroupTopic()
	tp.Topic, tp.TopicID, tp.Partitions = r.Groups[0].Topics[0].Topic, r.Groups[0].Topics[0].TopicID, []kmsg.OffsetFetchResponseGroupTopicPartition{p}
	g := kmsg.NewOffsetFetchResponseGroup()
	g.Group, g.Topics = r.Groups[0].Group, []kmsg.OffsetFetchResponseGroupTopic{tp}
	resp.Groups = []kmsg.OffsetFetchResponseGroup{g}
	return resp
}

func TestWhatPasses(t *testing.T) {
	for err, want := range map[error]bool{
		kerr.UnstableOffsetCommit: true, kerr.NotLeaderForPartition: true, kerr.CoordinatorLoadInProgress: true, errThrottled: true,
		&net.OpError{Op: "dial", Err: errors.New("refused")}: true,
		kerr.TopicAuthorizationFailed:                        false, kerr.OffsetOutOfRange: false, errors.New("other"): false,
	} {
		if passes(err) != want {
			t.Errorf("%v passes: %v", err, !want)
		}
	}
}

func TestPartitionsThatDifferAreNotJoined(t *testing.T) {
	b := newBroker(t, 2)
	cfg := b.config()
	cfg.Topics.Skipped = "narrow"
	if _, err := b.admin.CreateTopic(t.Context(), 1, 1, nil, "narrow"); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "narrow has 1 partitions and credit-events 2") {
		t.Error(err)
	}
	cfg.Topics.Skipped, cfg.Topics.DeadLetters = "", "narrow"
	if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "it needs one for each task") {
		t.Error(err)
	}
}

// A topic may have more partitions than there are tasks; what stands there is of nobody.
func TestALetterBeyondTheTasksIsAGhost(t *testing.T) {
	b := newBroker(t, 1)
	if _, err := b.admin.CreateTopic(t.Context(), 3, 1, nil, "wide"); err != nil {
		t.Fatal(err)
	}
	cfg := b.config()
	cfg.Topics.DeadLetters = "wide"
	b.transact(b.producer("job"), &committed, &kgo.Record{Topic: "wide", Partition: 2, Value: []byte("x")})
	r, err := Run(t.Context(), cfg)
	if err != nil || r.Counts[Ghost] != 1 {
		t.Errorf("error %v, %+v", err, r)
	}
}
