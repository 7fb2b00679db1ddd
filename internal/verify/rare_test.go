package verify

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Histories that are right in ways the simple job knows nothing of.

// put appends an input with headers.
func (w *world) put(p int32, key, value string, at int64, headers ...string) *kgo.Record {
	r := kgo.Record{Key: []byte(key), Value: []byte(value), Timestamp: time.UnixMilli(at)}
	for _, h := range headers {
		k, v, _ := strings.Cut(h, "=")
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: k, Value: []byte(v)})
	}
	rec := w.append(w.topics.Input, p, r)
	w.jobs[p].next = rec.Offset + 1
	return rec
}

func eventOf(id, account string) string {
	return fmt.Sprintf(`{"event_id":%q,"account_id":%q,"amount":"1.50","currency":"EUR","occurred_at":"2026-11-30T10:00:00Z"}`, id, account)
}

func TestALetterOfTheFutureIsJudgedByItsClock(t *testing.T) {
	const hour = 3_600_000
	for name, c := range map[string]struct {
		at, clock int64 // of the input, and that the letter tells
		accepted  bool
	}{
		"ahead of now and of the clock":              {testNow + hour + 1, testNow, true},
		"ahead of the clock only":                    {testNow, testNow - hour - 1, true},
		"at the limit of the clock":                  {testNow, testNow - hour, false},
		"ahead of now, but not of the clock":         {testNow + hour + 1, testNow + 1, false},
		"ahead of a clock that nobody can have read": {testNow, testNow - 100*hour, false},
	} {
		w := newWorld(1)
		r := w.put(0, "a", eventOf("e", "a"), c.at)
		w.jobs[0].deadLetter(r, "future_timestamp", clockHeader(c.clock))
		w.logs[w.topics.DeadLetters][0][0].Timestamp = time.UnixMilli(max(c.clock, testNow-2*hour))
		w.commit()
		if got, err := w.audit(t); err != nil || got.OK() != c.accepted {
			t.Errorf("%s: error %v, %v", name, err, got.Violations)
		}
	}
}

func TestAnEventOfTheFutureMayNotBePosted(t *testing.T) {
	w := newWorld(1)
	w.feed(0, in{id: "e", kind: "credit", account: "a", cents: 1, at: -3_600_001})
	w.commit()
	if r, err := w.audit(t); err != nil || r.Counts[Ghost] != 1 {
		t.Errorf("error %v, %v", err, r.Violations)
	}
}

func TestARecordOnTheWrongPartitionIsADeadLetter(t *testing.T) {
	w := newWorld(2)
	account := w.accountOn(1, 0)
	w.jobs[0].deadLetter(w.put(0, account, eventOf("e", account), testNow), "wrong_partition")
	w.commit()
	accepts(t, w)
}

func TestALetterMayNameAnyReasonThatHolds(t *testing.T) {
	for _, reason := range []string{"bad_id", "bad_currency", "key_mismatch"} {
		w := newWorld(1)
		r := w.put(0, "other", strings.Replace(eventOf(" e", "a"), "EUR", "EURO", 1), testNow)
		w.jobs[0].deadLetter(r, reason)
		w.commit()
		accepts(t, w)
	}
}

func TestALetterMayDropAValueThatItDescribes(t *testing.T) {
	w := newWorld(1)
	value := strings.Repeat("x", 5000)
	w.jobs[0].deadLetter(w.put(0, "a", value, testNow), "malformed_json", kgo.RecordHeader{Key: headerValue,
		Value: fmt.Appendf(nil, "dropped size=5000 sha256=%x", sha256.Sum256([]byte(value)))})
	w.logs[w.topics.DeadLetters][0][0].Value = nil
	w.commit()
	accepts(t, w)
}

func TestALetterReplacesErrorHeadersAndKeepsTheOthers(t *testing.T) {
	w := newWorld(1)
	r := w.put(0, "a", "{", testNow, "trace=1", "tallystick.reason=old", "__streams.errors.offset=7", "redrive.source=dead/0/3")
	clean := *r
	clean.Headers = original(r.Headers)
	w.jobs[0].deadLetter(&clean, "malformed_json")
	w.commit()
	accepts(t, w)
}

// posted writes the update of a credit of 1.50 by hand.
func (w *world) posted(r *kgo.Record, id, extra string, version int) {
	v := fmt.Sprintf(`{"event_id":%q,%s"account_id":"a","type":"credit","outcome":"applied","amount":"1.50","currency":"EUR","balance":%q,"held":"0.00","version":%d,%s}`,
		id, extra, cents(int64(150*version)), version, `"source":`+source(r.Topic, 0, r.Offset))
	w.append(w.topics.Updates, 0, kgo.Record{Key: r.Key, Value: []byte(v), Timestamp: r.Timestamp})
	j := w.jobs[0]
	j.streamTime = r.Timestamp.UnixMilli()
	j.accounts["a"] = jobAccount{currency: "EUR", balance: int64(150 * version), status: "open", version: int64(version)}
	j.dirty = append(j.dirty, "a")
}

func TestCloudEventsOfTwoSourcesAreTwoEvents(t *testing.T) {
	w := newWorld(1)
	for i, s := range []string{"/one", "/two"} {
		r := w.put(0, "a", eventOf("e", "a"), testNow, "ce_id=e", "ce_source="+s, "ce_specversion=1.0")
		w.posted(r, "e", `"event_source":"`+s+`",`, i+1)
		w.jobs[0].ids[s+"\x1fe"] = jobID{"", r.Offset, testNow/1000*1000 + 1000}
		w.jobs[0].fresh = append(w.jobs[0].fresh, s+"\x1fe")
	}
	w.commit()
	if r := accepts(t, w); r.Applied != 2 {
		t.Errorf("%+v", r)
	}
}

func TestAnUpdateNamesTheRecordThatWasRedriven(t *testing.T) {
	for _, redriveOf := range []string{source("bank-dead-letters", 0, 3), source("bank-dead-letters", 0, 4), ""} {
		w := newWorld(1)
		r := w.put(0, "a", eventOf("e", "a"), testNow, "redrive.source=bank-dead-letters/0/3")
		w.posted(r, "e", "", 1)
		if redriveOf != "" {
			w.edit(w.topics.Updates, 0, `"source"`, `"redrive_of":`+redriveOf+`,"source"`)
		}
		w.jobs[0].ids["e"] = jobID{"", 0, testNow/1000*1000 + 1000}
		w.jobs[0].fresh = []string{"e"}
		w.commit()
		got, err := w.audit(t)
		if right := strings.Contains(redriveOf, ":3}"); err != nil || got.OK() != right {
			t.Errorf("%s: error %v, %v", redriveOf, err, got.Violations)
		}
	}
}

func TestATopicThatStampsRecordsItselfIsNoFault(t *testing.T) {
	w := ordinary()
	for _, r := range w.logs[w.topics.Updates][0] { // the topic stamps records by itself: message.timestamp.type=LogAppendTime
		r.Timestamp = r.Timestamp.Add(time.Hour)
		r.Attrs = kgo.NewRecordAttrs(kgo.RecordAttrsOpts{TimestampType: 1})
	}
	accepts(t, w)
}

func TestANoteOfARedriveIsNoOutcome(t *testing.T) {
	note := kgo.Record{Headers: []kgo.RecordHeader{{Key: headerRedriven, Value: []byte("bank-dead-letters/0/0")}}}
	w := newWorld(1)
	w.jobs[0].deadLetter(w.put(0, "a", "{", testNow), "malformed_json")
	w.append(w.topics.DeadLetters, 0, note)
	w.commit()
	accepts(t, w)
	w.append(w.topics.DeadLetters, 0, note)
	if got, err := w.audit(t); err != nil || got.Counts[Duplicate] != 1 || !strings.Contains(got.Violations[0].Text, "redriven twice") {
		t.Errorf("a dead letter that was redriven twice: error %v, %v", err, got.Violations)
	}
}
