package verify

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"
)

// drawWorld makes a random correct history of one to three partitions.
func drawWorld(t *rapid.T) *world {
	w := newWorld(rapid.Int32Range(1, 3).Draw(t, "partitions"))
	var clock [3]int64
	for i := range rapid.IntRange(1, 60).Draw(t, "events") {
		p := rapid.Int32Range(0, w.partitions-1).Draw(t, "partition")
		clock[p] += rapid.SampledFrom([]int64{0, 1, 500, 3_000, 40_000}).Draw(t, "step")
		e := drawEvent(t, w, p, i)
		e.at = 4_000_000 - clock[p] + rapid.SampledFrom([]int64{0, 0, 0, 900, 70_000, 200_000}).Draw(t, "late")
		w.feed(p, e)
		if rapid.IntRange(0, 4).Draw(t, "commit") == 0 {
			w.jobs[p].commit()
		}
	}
	return w.commit()
}

func drawEvent(t *rapid.T, w *world, p int32, i int) in {
	e := in{
		id:       fmt.Sprintf("e%d-%d", p, rapid.IntRange(0, i).Draw(t, "id")), // often one that was used before
		account:  w.accountOn(p, rapid.IntRange(0, 3).Draw(t, "account")),
		kind:     rapid.SampledFrom([]string{"credit", "credit", "credit", "debit", "debit", "account"}).Draw(t, "kind"),
		cents:    rapid.Int64Range(-2, 300).Draw(t, "cents"),
		currency: rapid.SampledFrom([]string{"EUR", "EUR", "EUR", "USD"}).Draw(t, "currency"),
	}
	if e.kind == "account" {
		e.to = rapid.SampledFrom([]string{"open", "open", "frozen", "closed"}).Draw(t, "to")
		e.minimum = rapid.Int64Range(-100, 10).Draw(t, "minimum")
	}
	if rapid.IntRange(0, 9).Draw(t, "malformed") == 0 {
		e.raw, e.reason = `{"event_id":"x","event_id":"y"}`, "duplicate_name"
	}
	return e
}

func TestCorrectHistoriesHaveNoViolation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := drawWorld(rt)
		r, err := w.audit(t)
		if err != nil {
			rt.Fatal(err)
		}
		for _, v := range r.Violations {
			if v.Verdict != DoubleCredit { // ids carry their partition, so there is none
				rt.Error(v)
			}
		}
	})
}

// mutate spoils one record, or reports that the history has none of that kind.
func mutate(t *rapid.T, w *world) (what string, ok bool) {
	p := rapid.Int32Range(0, w.partitions-1).Draw(t, "where")
	topic := rapid.SampledFrom([]string{w.topics.Updates, w.topics.Updates, w.topics.Skipped, w.topics.DeadLetters, w.topics.State}).Draw(t, "topic")
	log := slices.Clone(w.logs[topic][p])
	if len(log) == 0 {
		return "", false
	}
	i := rapid.IntRange(0, len(log)-1).Draw(t, "record")
	what = rapid.SampledFrom([]string{"drop", "repeat", "repeat at the end", "digit", "swap", "source", "stale"}).Draw(t, "mutation")
	if topic == w.topics.State && what != "drop" && (what != "digit" || isMarkerKey(log[i].Key)) { // a marker's text names its writer: any will do
		return "", false
	}
	switch what {
	case "drop":
		ok = topic != w.topics.State || !superseded(log, i)
		log = slices.Delete(log, i, i+1)
	case "repeat":
		log, ok = slices.Insert(log, i, log[i]), true
	case "repeat at the end":
		log, ok = append(log, log[i]), true
	case "swap":
		if ok = i > 0; ok {
			log[i-1], log[i] = log[i], log[i-1]
		}
	case "digit":
		log[i], ok = mutateValue(log[i], func(v []byte) bool { return nextDigit(t, v) }, topic == w.topics.State && superseded(log, i))
	case "source":
		old, other := fmt.Sprintf(`"offset":%d}}`, w.sourceOf(topic, log[i])), fmt.Sprintf(`"offset":%d}}`, w.sourceOf(topic, log[i])+1)
		log[i], ok = replaced(log[i], old, other)
	case "stale":
		ok = topic == w.topics.Updates && stale(log, i)
	}
	w.logs[topic][p] = renumber(log)
	return fmt.Sprintf("%s %d of %s/%d", what, i, topic, p), ok
}

// superseded reports whether a later record has the same key, so that the fold does not see this one.
func superseded(log []*kgo.Record, i int) bool {
	return slices.ContainsFunc(log[i+1:], func(r *kgo.Record) bool { return bytes.Equal(r.Key, log[i].Key) })
}

func mutateValue(r *kgo.Record, change func(v []byte) bool, harmless bool) (*kgo.Record, bool) {
	c := *r
	c.Value = bytes.Clone(r.Value)
	return &c, change(c.Value) && !harmless
}

// nextDigit adds one to some digit of a value.
func nextDigit(t *rapid.T, v []byte) bool {
	var at []int
	for i, c := range v {
		if c >= '0' && c <= '9' {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return false
	}
	i := rapid.SampledFrom(at).Draw(t, "digit")
	v[i] = '0' + (v[i]-'0'+1)%10
	return true
}

func replaced(r *kgo.Record, old, new string) (*kgo.Record, bool) {
	c := *r
	c.Value = bytes.Replace(r.Value, []byte(old), []byte(new), 1)
	return &c, !bytes.Equal(c.Value, r.Value)
}

// stale makes an update tell balance and version of the update before it.
func stale(log []*kgo.Record, i int) bool {
	if i == 0 {
		return false
	}
	var r outcomeReader
	this, before := r.read(updates, log[i]), r.read(updates, log[i-1])
	if !this.update.applied || !before.update.applied || this.update.version == before.update.version {
		return false
	}
	v := string(log[i].Value)
	v = strings.Replace(v, fmt.Sprintf(`"version":%d`, this.update.version), fmt.Sprintf(`"version":%d`, before.update.version), 1)
	c := *log[i]
	c.Value = []byte(v)
	log[i] = &c
	return true
}

func TestOneMutationIsAViolation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := drawWorld(rt)
		what, ok := mutate(rt, w)
		if !ok {
			rt.Skip("the drawn history has nothing that the drawn mutation can change; rapid draws another")
		}
		if r, err := w.audit(t); err == nil && r.OK() {
			rt.Errorf("%s was not noticed", what)
		}
	})
}
