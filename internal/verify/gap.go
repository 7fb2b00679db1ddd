package verify

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
)

// gap is a piece of an input that retention deleted before it was processed, and that an operator had the job go on without.
type gap struct {
	from position
	next int64  // the first offset behind it
	by   string // the operator
	note string // where it says so
}

func newGap(rec *kgo.Record) (g gap) {
	g.note = place(rec)
	for _, h := range rec.Headers {
		switch h.Key {
		case headerLost:
			g.from, _ = parsePosition(h.Value)
		case headerLostNext:
			g.next, _ = strconv.ParseInt(string(h.Value), 10, 64)
		case headerLostBy:
			g.by = string(h.Value)
		}
	}
	return g
}

// givenUp keeps the partition undecided when inputs of it were given up: nobody can tell what had to become of them. A start behind
// them is somebody's word that only what follows is asked for.
func (a *audit) givenUp() error {
	for _, g := range a.gaps {
		if a.start[a.p] < g.next {
			return a.undecided("retention deleted offsets %d to %d of %s/%d before they were processed, and %s had the job go on without them (%s): what follows was judged and is right, those events are in no balance; if nothing was processed before them, --start %d=%d judges what follows alone",
				g.from.offset, g.next-1, a.topics.Input, a.p, g.by, g.note, a.p, g.next)
		}
	}
	return nil
}
