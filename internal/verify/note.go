package verify

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// isNote takes a record among the dead letters that is none: it says that one of them was sent to the input again, or that a piece
// of the input was given up. A dead letter has one note at most, because the second operator sees the first one's.
func (a *audit) isNote(l lane, rec *kgo.Record) bool {
	if l != letters {
		return false
	}
	for _, h := range rec.Headers {
		switch h.Key {
		case headerRedriven:
			a.note(string(h.Value), rec)
			return true
		case headerLost:
			if g := newGap(rec); !slices.Contains(a.gaps, g) { // it is read again where an audit goes on
				a.gaps = append(a.gaps, g)
			}
			return true
		}
	}
	return false
}

func (a *audit) note(letter string, rec *kgo.Record) {
	if at, known := a.redriven[letter]; known && at != rec.Offset { // which is read again where an audit goes on
		a.violate(Duplicate, fmt.Sprintf("the dead letter %s was redriven twice", letter), evidence("second note", rec))
	}
	a.redriven[letter] = rec.Offset
}
