package pipelinetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// difference is the first thing in which two runs differ.
type difference struct {
	where     string
	want, got string
	permuted  bool // the same, in another order
}

const nothing = "nothing"

// compare returns the first difference of two outcomes, outputs first; nil when there is none.
func (w *writers) compare(want, got outcome) *difference {
	at := slices.Collect(maps.Keys(want.records))
	at = append(at, slices.Collect(maps.Keys(got.records))...)
	slices.SortFunc(at, func(a, b partition) int {
		if c := strings.Compare(a.topic, b.topic); c != 0 {
			return c
		}
		return int(a.number - b.number)
	})
	for _, at := range slices.Compact(at) {
		timed := w.timed(at)
		if d := w.compareRecords(at, withTime(want.records[at], timed), withTime(got.records[at], timed)); d != nil {
			return d
		}
	}
	return compareState(want.state, got.state)
}

// compareRecords compares a partition: what is there, and how often; then the order, as far as there is one.
func (w *writers) compareRecords(at partition, want, got []written) *difference {
	where := fmt.Sprintf("topic %q partition %d", at.topic, at.number)
	count := fmt.Sprintf(" (%d records expected, %d there)", len(want), len(got))
	missing, surplus := minus(want, got), minus(got, want)
	if w.ordered(at) {
		for i := range max(len(want), len(got)) {
			if a, b := textAt(want, i), textAt(got, i); a != b {
				return &difference{fmt.Sprintf("%s, record %d%s", where, i, count), a, b, len(missing)+len(surplus) == 0}
			}
		}
		return nil
	}
	if len(missing)+len(surplus) > 0 {
		return &difference{where + count, textAt(missing, 0), textAt(surplus, 0), false}
	}
	for _, key := range keysOf(want) {
		if !w.keyOrdered(at, key) {
			continue
		}
		a, b := ofKey(want, key), ofKey(got, key)
		for i := range a {
			if a[i].text != b[i].text {
				return &difference{fmt.Sprintf("%s, record %d of key %q%s", where, i, key, count), a[i].text, b[i].text, true}
			}
		}
	}
	return nil
}

// withTime adds the times of records to what is compared, or leaves them out.
func withTime(list []written, timed bool) []written {
	list = slices.Clone(list)
	for i := range list {
		if timed {
			list[i].text += list[i].time
		}
	}
	return list
}

func textAt(list []written, i int) string {
	if i >= len(list) {
		return nothing
	}
	return list[i].text
}

// minus returns what is in a more often than in b.
func minus(a, b []written) (rest []written) {
	count := map[string]int{}
	for _, r := range b {
		count[r.text]++
	}
	for _, r := range a {
		if count[r.text]--; count[r.text] < 0 {
			rest = append(rest, r)
		}
	}
	return rest
}

func keysOf(list []written) (keys []string) {
	for _, r := range list {
		keys = append(keys, r.key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func ofKey(list []written, key string) (of []written) {
	for _, r := range list {
		if r.key == key {
			of = append(of, r)
		}
	}
	return of
}

func compareState(want, got map[string]string) *difference {
	places := slices.Sorted(maps.Keys(want))
	places = append(places, slices.Sorted(maps.Keys(got))...)
	for _, place := range places {
		a, known := want[place]
		b, there := got[place]
		if !known {
			a = nothing
		}
		if !there {
			b = nothing
		}
		if a != b {
			return &difference{place, a, b, false}
		}
	}
	return nil
}

// String shows both sides under their names.
func (d *difference) show(want, got string) string {
	return fmt.Sprintf("%s\n  %s %s\n  %s %s", d.where, want, clip(d.want), got, clip(d.got))
}

// clip keeps a failure readable.
func clip(s string) string {
	const most = 600
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", s[:most], len(s))
}
