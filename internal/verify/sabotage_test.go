package verify

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// sabotages are histories that are wrong in one way, each with the verdict it must get and a word of the text.
var sabotages = []struct {
	name    string
	spoil   func(w *world)
	verdict Verdict
	says    string
	records int // of evidence, at least
}{
	{"an update is missing", func(w *world) { w.drop(w.topics.Updates, 1) }, Lost, "has no outcome", 1},
	{"the last update is missing", func(w *world) { w.drop(w.topics.Updates, len(w.logs[w.topics.Updates][0])-1) }, Lost, "has no outcome", 1},
	{"a skipped note is missing", func(w *world) { w.drop(w.topics.Skipped, 0) }, Lost, "a skipped note was due", 1},
	{"a dead letter is missing", func(w *world) { w.drop(w.topics.DeadLetters, 0) }, Lost, "(conflict) was due", 1},
	{"a new event was skipped", func(w *world) {
		w.drop(w.topics.Updates, 2)
		in := w.input("e3-0")
		w.jobs[0].skip(in.event, in.rec, 0)
		w.sortBySource(w.topics.Skipped)
	}, Lost, "was skipped as a duplicate", 3},
	{"a new event became a dead letter", func(w *world) {
		w.drop(w.topics.Updates, 2)
		w.jobs[0].deadLetter(w.input("e3-0").rec, "conflict")
		w.sortBySource(w.topics.DeadLetters)
	}, Lost, "was not posted", 2},
	{"a new event became a dead letter of the future", func(w *world) {
		w.drop(w.topics.Updates, 2)
		w.jobs[0].deadLetter(w.input("e3-0").rec, "future_timestamp", clockHeader(0))
		w.sortBySource(w.topics.DeadLetters)
	}, Lost, "future_timestamp", 2},
	{"retention took unread inputs", func(w *world) {
		w.first[where(w.topics.Input, 0)] = w.jobs[0].next + 3
		w.logs[w.topics.Updates][0], w.logs[w.topics.Skipped][0], w.logs[w.topics.DeadLetters][0] = nil, nil, nil
	}, Lost, "retention deleted", 1},

	{"an update twice in a row", func(w *world) { w.repeat(w.topics.Updates, 1, 2) }, Duplicate, "has 2 outcomes", 3},
	{"a transaction's updates twice", func(w *world) { w.repeat(w.topics.Updates, 0, 3) }, Duplicate, "has a second outcome", 3},
	{"the first update again at the end", func(w *world) { w.repeat(w.topics.Updates, 0, 99) }, Duplicate, "has a second outcome", 3},
	{"a duplicate was posted", func(w *world) { w.repost(w.input("e1-0#2")) }, Duplicate, "repeats the id", 3},
	{"a conflict was posted", func(w *world) { w.repost(w.input("e1-0#3")) }, Duplicate, "repeats the id", 3},
	{"an input has an update and a dead letter", func(w *world) {
		w.jobs[0].deadLetter(w.input("e3-0").rec, "malformed_json")
		w.sortBySource(w.topics.DeadLetters)
	}, Duplicate, "has 2 outcomes", 3},

	{"an update of no input", func(w *world) { w.forge(0, 0, `"offset":0}`, `"offset":12345}`) }, Ghost, "holds no committed record", 1},
	{"an update of an aborted input", func(w *world) {
		w.logs[w.topics.Input][0] = slices.Delete(w.logs[w.topics.Input][0], 4, 5)
	}, Ghost, "holds no committed record", 1},
	{"an update of another partition's input", func(w *world) { w.edit(w.topics.Updates, 0, `"partition":0`, `"partition":1`) }, Ghost, "no outcome of this partition", 1},
	{"an update of another topic's input", func(w *world) { w.edit(w.topics.Updates, 0, `"topic":"credit-events"`, `"topic":"debit-events"`) }, Ghost, "no outcome of this partition", 1},
	{"an update that is no JSON", func(w *world) { w.edit(w.topics.Updates, 0, `{`, `{{`) }, Ghost, "is no JSON", 1},
	{"an update with a strange member", func(w *world) { w.edit(w.topics.Updates, 0, `{`, `{"fee":"1.00",`) }, Ghost, "no place for a member", 1},
	{"an update with a member twice", func(w *world) { w.edit(w.topics.Updates, 0, `{`, `{"held":"0.00",`) }, Ghost, "no place for a member", 1},
	{"an update without a member", func(w *world) { w.edit(w.topics.Updates, 0, `,"held":"0.00"`, ``) }, Ghost, "lacks a member", 1},
	{"an update with trailing data", func(w *world) { w.edit(w.topics.Updates, 0, `}}`, `}} x`) }, Ghost, "is no JSON", 1},
	{"an update of another event", func(w *world) { w.edit(w.topics.Updates, 0, `e1-0`, `e9-9`) }, Ghost, "the event is", 2},
	{"an update of another amount", func(w *world) { w.edit(w.topics.Updates, 0, `"amount":"50.00"`, `"amount":"50.01"`) }, Ghost, "the amount is 50.00", 2},
	{"an amount without its digits", func(w *world) { w.edit(w.topics.Updates, 0, `"amount":"50.00"`, `"amount":"50.0"`) }, Ghost, "the amount is 50.00", 2},
	{"an update of another type", func(w *world) { w.edit(w.topics.Updates, 0, `"credit"`, `"debit"`) }, Ghost, "the type is credit", 2},
	{"an update of another currency", func(w *world) { w.edit(w.topics.Updates, 0, `"EUR"`, `"CHF"`) }, Ghost, "the currency is", 2},
	{"an update of another account", func(w *world) {
		w.edit(w.topics.Updates, 0, `"account_id":"`+w.accountOn(0, 0), `"account_id":"`+w.accountOn(0, 1))
	}, Ghost, "the account is", 2},
	{"an update under another key", func(w *world) { w.logs[w.topics.Updates][0][0].Key = []byte("other") }, Ghost, "the account is", 2},
	{"an update at another time", func(w *world) {
		w.logs[w.topics.Updates][0][0].Timestamp = w.logs[w.topics.Updates][0][0].Timestamp.Add(time.Millisecond)
	}, Ghost, "the record time", 2},
	{"an update that says it was redriven", func(w *world) {
		w.edit(w.topics.Updates, 0, `,"source"`, `,"redrive_of":{"topic":"x","partition":1,"offset":2},"source"`)
	}, Ghost, "redriven", 2},
	{"a malformed input was posted", func(w *world) { w.repost(w.inputAt(7)) }, Ghost, "(malformed_json) was due", 2},
	{"an expired input was posted", func(w *world) { w.repost(w.input("e6-0")) }, Ghost, "(outside_dedupe_window) was due", 2},
	{"a debit beyond the funds was applied", func(w *world) {
		w.edit(w.topics.Updates, 3, `"rejected","reason":"insufficient_funds"`, `"applied"`)
	}, Ghost, "applies its input", 2},
	{"a good debit was rejected", func(w *world) {
		w.edit(w.topics.Updates, 2, `"applied"`, `"rejected","reason":"insufficient_funds"`)
	}, Ghost, "rejects its input", 2},
	{"a rejection for a reason that does not hold", func(w *world) {
		w.edit(w.topics.Updates, 3, `insufficient_funds`, `account_frozen`)
	}, Ghost, "rejects its input (account_frozen)", 2},
	{"a rejection without a reason", func(w *world) { w.edit(w.topics.Updates, 3, `,"reason":"insufficient_funds"`, ``) }, Ghost, "without a reason", 2},
	{"an application with a reason", func(w *world) { w.edit(w.topics.Updates, 0, `"applied"`, `"applied","reason":"overflow"`) }, Ghost, "gives a reason", 2},
	{"a skipped note of another first", func(w *world) { w.edit(w.topics.Skipped, 0, `"offset":0}`, `"offset":1}`) }, Ghost, "but that is offset 0", 2},
	{"a skipped note of another event", func(w *world) { w.edit(w.topics.Skipped, 0, `e1-0`, `e2-0`) }, Ghost, "names another event", 2},
	{"a skipped note at another time", func(w *world) { w.logs[w.topics.Skipped][0][0].Timestamp = time.UnixMilli(1) }, Ghost, "record time", 2},
	{"a skipped note under another key", func(w *world) { w.logs[w.topics.Skipped][0][0].Key = nil }, Ghost, "its key", 2},
	{"a conflict was skipped", func(w *world) {
		w.drop(w.topics.DeadLetters, 0)
		in := w.input("e1-0#3")
		w.jobs[0].skip(in.event, in.rec, 0)
		w.sortBySource(w.topics.Skipped)
	}, Ghost, "(conflict) was due", 3},
	{"a duplicate became a dead letter", func(w *world) {
		w.drop(w.topics.Skipped, 0)
		w.jobs[0].deadLetter(w.input("e1-0#2").rec, "conflict")
		w.sortBySource(w.topics.DeadLetters)
	}, Ghost, "a skipped note was due", 2},
	{"a dead letter with the wrong label", func(w *world) { w.relabel(1, "bad_time") }, Ghost, "is labelled bad_time", 2},
	{"a dead letter with an unknown label", func(w *world) { w.relabel(1, "bad_mood") }, Ghost, "is labelled bad_mood", 2},
	{"a dead letter of the future by a lying clock", func(w *world) {
		w.relabel(1, "future_timestamp")
		l := w.logs[w.topics.DeadLetters][0][1]
		l.Headers = append(l.Headers, clockHeader(testNow-100*time.Hour.Milliseconds()))
	}, Ghost, "is labelled future_timestamp", 2},
	{"a conflict that names another first", func(w *world) {
		l := w.logs[w.topics.DeadLetters][0][0]
		l.Headers[len(l.Headers)-1].Value = []byte("credit-events/0/1")
	}, Ghost, "as the first event", 2},
	{"a conflict that names no first", func(w *world) {
		l := w.logs[w.topics.DeadLetters][0][0]
		l.Headers = l.Headers[:len(l.Headers)-1]
	}, Ghost, "as the first event", 2},
	{"a dead letter with another value", func(w *world) { w.logs[w.topics.DeadLetters][0][0].Value = []byte("{}") }, Ghost, "its value is not", 2},
	{"a dead letter with another key", func(w *world) { w.logs[w.topics.DeadLetters][0][0].Key = nil }, Ghost, "its key is not", 2},
	{"a dead letter with more headers", func(w *world) {
		l := w.logs[w.topics.DeadLetters][0][0]
		l.Headers = append(l.Headers, kgo.RecordHeader{Key: "x"})
	}, Ghost, "its headers are not", 2},
	{"a dead letter with stacked headers", func(w *world) {
		l := w.logs[w.topics.DeadLetters][0][0]
		l.Headers = append(l.Headers, l.Headers[0])
	}, Ghost, "is there twice", 1},
	{"a dead letter without its source", func(w *world) {
		l := w.logs[w.topics.DeadLetters][0][0]
		l.Headers = slices.DeleteFunc(slices.Clone(l.Headers), func(h kgo.RecordHeader) bool { return h.Key == headerOffset })
	}, Ghost, "lacks the header", 1},
	{"a dead letter with two reasons", func(w *world) { w.logs[w.topics.DeadLetters][0][0].Headers[0].Value = []byte("x") }, Ghost, "two reasons", 1},
	{"a dead letter that dropped another value", func(w *world) {
		l := w.logs[w.topics.DeadLetters][0][0]
		l.Value, l.Headers = nil, append(l.Headers, kgo.RecordHeader{Key: headerValue, Value: []byte("dropped size=3 sha256=00")})
	}, Ghost, "dropped the value", 2},

	{"a balance that is one cent off", func(w *world) { w.edit(w.topics.Updates, 2, `"balance":"30.00"`, `"balance":"30.01"`) }, Chain, "balance 30.01, due 30.00", 3},
	{"a stale balance", func(w *world) {
		w.edit(w.topics.Updates, 2, `"balance":"30.00"`, `"balance":"-20.00"`)
		w.edit(w.topics.Updates, 2, `"version":2`, `"version":1`)
	}, Chain, "version 1, due 2", 3},
	{"a version that leaps", func(w *world) { w.edit(w.topics.Updates, 2, `"version":2`, `"version":3`) }, Chain, "version 3, due 2", 3},
	{"a hold from nowhere", func(w *world) { w.edit(w.topics.Updates, 2, `"held":"0.00"`, `"held":"1.00"`) }, Chain, "held 1.00", 3},
	{"a rejection with a stale balance", func(w *world) { w.edit(w.topics.Updates, 3, `"balance":"30.00"`, `"balance":"50.00"`) }, Chain, "balance 50.00, due 30.00", 3},
	{"a balance with other digits", func(w *world) { w.edit(w.topics.Updates, 2, `"balance":"30.00"`, `"balance":"30.0"`) }, Chain, "balance 30", 3},
	{"a status that does not follow", func(w *world) { w.edit(w.topics.Updates, 6, `"status":"open"`, `"status":"frozen"`) }, Chain, "status frozen", 2},
	{"a posting with a status", func(w *world) { w.edit(w.topics.Updates, 2, `"version"`, `"status":"open","version"`) }, Chain, "status and minimum", 3},
	{"two updates in the wrong order", func(w *world) {
		log := w.logs[w.topics.Updates][0]
		log[2].Value, log[3].Value = log[3].Value, log[2].Value
	}, Chain, "stands before that of input", 2},
	{"an update that comes much later", func(w *world) {
		log := slices.Clone(w.logs[w.topics.Updates][0])
		w.logs[w.topics.Updates][0] = renumber(append(slices.Delete(log, 1, 2), w.logs[w.topics.Updates][0][1]))
	}, Chain, "after outcomes of later inputs", 2},

	{"an account that differs in the state", func(w *world) {
		j := w.jobs[0]
		a := j.accounts[w.accountOn(0, 0)]
		a.balance++
		j.accounts[w.accountOn(0, 0)] = a
		j.dirty = append(j.dirty, w.accountOn(0, 0))
		j.commit()
	}, State, "in the state; its last update says", 3},
	{"an account that is not in the state", func(w *world) {
		delete(w.jobs[0].state, "\x08accounts"+w.accountOn(0, 0))
		w.append(w.topics.State, 0, kgo.Record{Key: stateKey(w.accountOn(0, 0))})
		w.jobs[0].commit()
	}, State, "is not in the state", 2},
	{"an account that no update made", func(w *world) {
		w.jobs[0].put("\x08accounts"+w.accountOn(0, 9), `{"currency":"EUR","balance":"1.00","held":"0.00","minimum":"0.00","status":"open","version":1}`)
		w.jobs[0].commit()
	}, State, "of which no update tells", 2},
	{"an account that cannot be read", func(w *world) {
		w.jobs[0].put("\x08accounts"+w.accountOn(0, 0), `{"currency":"EUR"}`)
		w.jobs[0].commit()
	}, State, "in the state; its last update says", 3},
	{"a key that compaction lost", func(w *world) {
		log := w.logs[w.topics.State][0]
		w.logs[w.topics.State][0] = slices.DeleteFunc(slices.Clone(log), func(r *kgo.Record) bool { return bytes.HasPrefix(r.Key, []byte("\x05inbox")) })
	}, State, "have digest", 1},
	{"an id that the inbox forgot", func(w *world) {
		w.forgetIDs()
		w.jobs[0].commit()
	}, State, "the state's inbox remembers", 1},
	{"a stream time that went back", func(w *world) {
		w.jobs[0].streamTime--
		w.jobs[0].commit()
	}, State, "stream time", 1},
	{"a state record behind the marker", func(w *world) {
		w.append(w.topics.State, 0, kgo.Record{Key: []byte("\x05extra1"), Value: []byte("x")})
	}, State, "behind the last applied marker", 2},
	{"a transaction that was counted twice", func(w *world) {
		w.jobs[0].txn--
		w.jobs[0].commit()
	}, State, "follows that of", 2},
	{"a marker that cannot be read", func(w *world) { w.append(w.topics.State, 0, kgo.Record{Key: []byte("\x00m"), Value: []byte{9}}) }, State, "cannot be read", 1},
	{"a key that names no store", func(w *world) {
		w.append(w.topics.State, 0, kgo.Record{Key: []byte("\xffx"), Value: []byte("x")})
		w.jobs[0].commit()
	}, State, "names no store", 1},
	{"ids that cannot be read", func(w *world) {
		w.jobs[0].put("\x05inbox12345678ABCDEFGH", "\x01\x05")
		w.jobs[0].commit()
	}, State, "a packed record", 1},

	{"the committed offset is behind", func(w *world) { w.commits[0].next-- }, Offset, "the applied marker says", 1},
	{"the committed offset is ahead", func(w *world) { w.commits[0].next++ }, Offset, "the applied marker says", 1},
	{"the committed transaction is another one", func(w *world) { w.commits[0].txnSeq++ }, Offset, "the applied marker says", 1},
	{"the committed transaction is an older one", func(w *world) { w.commits[0].txnSeq-- }, Offset, "the applied marker says", 1},
	{"the committed digest is another one", func(w *world) { w.commits[0].digest++ }, Offset, "the applied marker says", 1},
	{"the metadata is someone else's", func(w *world) { w.commits[0] = newCommit(w.commits[0].next, "") }, Offset, "the applied marker says", 1},
	{"the group's offset is gone before it could expire", func(w *world) { w.commits[0], w.later = newCommit(-1, ""), 23*time.Hour }, Offset, "no committed offset", 1},
	{"the group's offset is gone while it has members", func(w *world) { w.commits[0], w.joined = newCommit(-1, ""), 1 }, Offset, "no committed offset", 1},
	{"the state is gone", func(w *world) { w.logs[w.topics.State][0] = nil }, Offset, "no applied marker", 0},
	{"an outcome behind the committed offset", func(w *world) { w.feed(0, in{id: "new", kind: "credit", account: w.accountOn(0, 0), cents: 1}) }, Offset, "tells of input 21", 2},
	{"a marker of another input", func(w *world) {
		log := w.logs[w.topics.State][0]
		m := log[len(log)-1]
		m.Value = bytes.Replace(m.Value, []byte("credit-events"), []byte("credit-eventz"), 1)
	}, Offset, "does not speak of", 1},

	{"a last balance that is a cent too high", func(w *world) {
		w.edit(w.topics.Updates, len(w.logs[w.topics.Updates][0])-1, `"balance":"80.00"`, `"balance":"80.01"`)
	}, Money, "off by", 2},
	{"an event lost", func(w *world) { w.drop(w.topics.Updates, len(w.logs[w.topics.Updates][0])-1) }, Money, "off by -50.00", 1},

	{"one id on two partitions", func(w *world) {
		for p := range int32(2) {
			w.feed(p, in{id: "twice", kind: "credit", account: w.accountOn(p, 0), cents: 1})
			w.jobs[p].commit()
		}
	}, DoubleCredit, "have one id", 2},
}

// Guarantee: G2
// Sabotage: spoiled-history
func TestEachSabotageGetsItsVerdict(t *testing.T) {
	for _, s := range sabotages {
		t.Run(fmt.Sprintf("%s/%s", s.verdict, s.name), func(t *testing.T) {
			w := ordinary()
			s.spoil(w)
			r, err := w.audit(t)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(r.Violations, func(v Violation) bool {
				return v.Verdict == s.verdict && strings.Contains(v.Text, s.says) && len(v.Evidence) >= s.records
			})
			if i < 0 || r.OK() {
				t.Errorf("want %s with %q and %d records; have", s.verdict, s.says, s.records)
				for _, v := range r.Violations {
					t.Log(v)
				}
			}
		})
	}
}

// A fault is reported where it is, and not again for all that comes after.
func TestOneBrokenUpdateIsOneViolation(t *testing.T) {
	w := ordinary()
	w.edit(w.topics.Updates, 2, `"balance":"30.00"`, `"balance":"30.01"`)
	r, err := w.audit(t)
	if err != nil || len(r.Violations) != 1 {
		t.Fatalf("error %v, violations %v", err, r.Violations)
	}
	want := []string{"input credit-events/0/4", "previous update ledger-updates/0/0", "update ledger-updates/0/2"}
	for i, e := range r.Violations[0].Evidence {
		if !strings.HasPrefix(e.String(), want[i]) {
			t.Errorf("evidence %d is %s, want %s", i, e, want[i])
		}
	}
}

func TestATransactionThatRanTwiceIsDuplicatesAlone(t *testing.T) {
	w := ordinary()
	w.repeat(w.topics.Updates, 0, 3)
	r, err := w.audit(t)
	if err != nil || len(r.Violations) != 3 || r.Counts[Duplicate] != 3 {
		t.Fatalf("error %v, violations %v", err, r.Violations)
	}
	roles := map[string]int{}
	for _, v := range r.Violations {
		for _, e := range v.Evidence {
			roles[e.Role]++
		}
	}
	if roles["input"] != 3 || roles["first"] != 2 || roles["second"] != 2 || roles["outcome"] != 2 { // the third stands next to its first
		t.Error(roles)
	}
}

func TestEveryVerdictIsProvoked(t *testing.T) {
	for _, v := range []Verdict{Lost, Duplicate, Ghost, Chain, State, Offset, Money, DoubleCredit} {
		n := 0
		for _, s := range sabotages {
			if s.verdict == v {
				n++
			}
		}
		if n == 0 {
			t.Errorf("no sabotage provokes %s", v)
		}
	}
}
