package verify

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The tools of sabotage. They work on partition 0.

func (w *world) drop(topic string, i int) {
	w.logs[topic][0] = slices.Delete(slices.Clone(w.logs[topic][0]), i, i+1)
}

// repeat writes records again, as a transaction that ran twice would: behind the last of them.
func (w *world) repeat(topic string, from, to int) {
	log := slices.Clone(w.logs[topic][0])
	to = min(to, len(log))
	again := slices.Clone(log[from:min(to, from+3)])
	w.logs[topic][0] = renumber(slices.Insert(log, to, again...))
}

// renumber gives copies of records increasing offsets.
func renumber(log []*kgo.Record) (out []*kgo.Record) {
	for i, r := range log {
		c := *r
		c.Offset = int64(i)
		out = append(out, &c)
	}
	return out
}

// sortBySource moves an outcome that was written last to where its input stands.
func (w *world) sortBySource(topic string) {
	var r outcomeReader
	l := map[string]lane{w.topics.Updates: updates, w.topics.Skipped: skipped, w.topics.DeadLetters: letters}[topic]
	log := slices.Clone(w.logs[topic][0])
	slices.SortStableFunc(log, func(a, b *kgo.Record) int {
		return int(r.read(l, a).source.offset - r.read(l, b).source.offset)
	})
	w.logs[topic][0] = renumber(log)
}

func (w *world) edit(topic string, i int, old, new string) {
	r := w.logs[topic][0][i]
	if !bytes.Contains(r.Value, []byte(old)) {
		panic(fmt.Sprintf("%q is not in %s", old, r.Value))
	}
	r.Value = bytes.Replace(r.Value, []byte(old), []byte(new), 1)
}

// forge adds an altered copy of an update in front of it.
func (w *world) forge(i, _ int, old, new string) {
	log := slices.Clone(w.logs[w.topics.Updates][0])
	c := *log[i]
	c.Value = bytes.Replace(c.Value, []byte(old), []byte(new), 1)
	w.logs[w.topics.Updates][0] = renumber(slices.Insert(log, i+1, &c))
}

type fed struct {
	event in
	rec   *kgo.Record
}

// input finds an input by its id, or by id#n its n-th delivery.
func (w *world) input(id string) fed {
	id, which, numbered := strings.Cut(id, "#")
	n := 1
	if numbered {
		n = int(which[0] - '0')
	}
	var r eventReader
	for _, rec := range w.logs[w.topics.Input][0] {
		e, _ := r.read(rec)
		if string(e.id) != id {
			continue
		}
		if n--; n == 0 {
			return w.inputAt(rec.Offset)
		}
	}
	panic("no input " + id)
}

func (w *world) inputAt(offset int64) fed {
	var r eventReader
	rec := w.logs[w.topics.Input][0][offset]
	e, _ := r.read(rec)
	return fed{in{id: string(e.id), kind: "credit", account: string(rec.Key), cents: e.amount.units*100 + int64(e.amount.frac)/100}, rec}
}

// repost gives an input an update in place of what it got.
func (w *world) repost(f fed) {
	for _, topic := range []string{w.topics.Updates, w.topics.Skipped, w.topics.DeadLetters} {
		w.logs[topic][0] = slices.DeleteFunc(slices.Clone(w.logs[topic][0]), func(r *kgo.Record) bool { return w.sourceOf(topic, r) == f.rec.Offset })
	}
	w.jobs[0].post(f.event, f.rec)
	w.sortBySource(w.topics.Updates)
}

func (w *world) sourceOf(topic string, r *kgo.Record) int64 {
	var reader outcomeReader
	l := map[string]lane{w.topics.Updates: updates, w.topics.Skipped: skipped, w.topics.DeadLetters: letters}[topic]
	return reader.read(l, r).source.offset
}

func (w *world) relabel(i int, reason string) {
	l := w.logs[w.topics.DeadLetters][0][i]
	l.Headers = slices.Clone(l.Headers)
	for h := range l.Headers {
		if l.Headers[h].Key == headerReason || l.Headers[h].Key == headerException {
			l.Headers[h].Value = []byte(reason)
		}
	}
}

func clockHeader(ms int64) kgo.RecordHeader {
	return kgo.RecordHeader{Key: headerClock, Value: []byte(time.UnixMilli(ms).UTC().Format(time.RFC3339Nano))}
}

// forgetIDs deletes the inbox's last packed record.
func (w *world) forgetIDs() {
	log := w.logs[w.topics.State][0]
	for i := len(log) - 1; i >= 0; i-- {
		if bytes.HasPrefix(log[i].Key, []byte("\x05inbox")) {
			delete(w.jobs[0].state, string(log[i].Key))
			w.append(w.topics.State, 0, kgo.Record{Key: log[i].Key})
			return
		}
	}
}
