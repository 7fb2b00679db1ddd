package verify

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// mending holds back what is wrong with dead letters by the rules of today: an earlier program may have had others. A letter
// is forgiven once its record was redriven and got the outcome that is due now; what never was stays a violation.
//
// That is safe because nothing is believed: the redriven record says the same, byte for byte, and is judged as any input. The
// event that the letter withheld has then had its outcome, once.
type mending struct {
	held   map[position][]heldLetter // by the first original, which redrive.source names
	n      int
	mended int64
}

// heldLetter is a letter that today's rules would not write.
type heldLetter struct {
	violation Violation
	at        int64 // the input's offset
	due       lane
	posting   *event // what had to be posted; nil when nothing
	content   uint64 // of the input, without what a redrive changes
}

// maxHeld bounds what is held back in a partition. A history with more has a fault of another kind, and is told so.
const maxHeld = 100_000

// hold keeps a violation until the partition has been read, and its posting out of the books.
func (a *audit) hold(in *kgo.Record, x *expected, v Verdict, fault string, letter *kgo.Record) {
	l := heldLetter{violation: Violation{v, a.p, heldText(fault), nil}, at: in.Offset, due: x.lane, content: redriveContent(in)}
	if a.mending.n >= maxHeld {
		a.violate(v, l.violation.Text, evidence("input", in), evidence("dead letter", letter))
		return
	}
	if a.mending.n < 2*MaxShown { // enough to show: the rest is only counted
		l.violation.Evidence = []Evidence{evidence("input", in), evidence("dead letter", letter)}
	}
	if x.posts() {
		l.posting = &event{kind: x.event.kind, currency: x.event.currency, amount: x.event.amount, account: slices.Clone(x.event.account)}
	}
	if a.mending.held == nil {
		a.mending.held = map[position][]heldLetter{}
	}
	of := a.original(in)
	a.mending.held[of] = append(a.mending.held[of], l)
	a.mending.n++
	x.withheld = true
}

// original is the position of the record that an input was first, before any redrive.
func (a *audit) original(in *kgo.Record) position {
	if of, redriven := redriveSource(in); redriven {
		return of
	}
	return position{a.topics.Input, a.p, in.Offset}
}

// mend forgives the letters whose record this input is, when its own outcome was right.
func (a *audit) mend(in *kgo.Record, o *outcome) {
	of, redriven := redriveSource(in)
	held := a.mending.held[of]
	if !redriven || len(held) == 0 {
		return
	}
	content := redriveContent(in)
	rest := slices.DeleteFunc(held, func(l heldLetter) bool {
		return l.content == content && (o.lane != letters || l.due == letters)
	})
	a.mending.mended += int64(len(held) - len(rest))
	a.mending.n -= len(held) - len(rest)
	a.mending.held[of] = rest
}

// reportHeld reports the letters that nothing forgave, in the order of their inputs.
func (a *audit) reportHeld() {
	a.report.mended = a.mending.mended
	all := slices.Concat(slices.Collect(maps.Values(a.mending.held))...)
	slices.SortFunc(all, func(x, y heldLetter) int { return cmp.Compare(x.at, y.at) })
	for _, l := range all {
		a.violate(l.violation.Verdict, l.violation.Text, l.violation.Evidence...)
		if l.posting != nil {
			a.enter(l.posting)
			a.drift(l.posting.account, l.posting.currency, l.posting.signed().neg(), func() []Evidence { return l.violation.Evidence })
		}
	}
	a.mending = mending{}
}

// findings counts what was found wrong so far, held back or not.
func (a *audit) findings() int64 {
	n := int64(a.mending.n)
	for _, c := range a.report.counts {
		n += c
	}
	return n
}

// heldText is the text of a letter's fault, with the remedy in case the rule was another one.
func heldText(fault string) string {
	return fmt.Sprintf("%s; if an earlier program wrote it under a rule that was mended since, redrive it", fault)
}

// redriveContent hashes what a redrive leaves as it was: key, value, and the headers that are not ours, the source aside.
func redriveContent(in *kgo.Record) uint64 {
	b := appendField(appendField(nil, in.Key), in.Value)
	for _, h := range original(in.Headers) {
		if h.Key != headerRedrive {
			b = appendField(appendField(b, []byte(h.Key)), h.Value)
		}
	}
	return xxh64(b)
}

// appendField appends bytes with their length, null told from empty.
func appendField(to, b []byte) []byte {
	n := int64(len(b))
	if b == nil {
		n = -1
	}
	return append(binary.AppendVarint(to, n), b...)
}
