package evidence

import (
	"errors"
	"fmt"
	"strings"
)

// Under is what results were made under. Results under two of them say nothing about either.
type Under struct {
	Engine string `json:"engine,omitempty"` // what was tested: see Engine
	Judge  string `json:"judge,omitempty"`  // what broke and judged it: see SimulationJudge and CampaignJudge
}

// Differs says in what two differ, "" when in nothing.
func (u Under) Differs(from Under) string {
	var in []string
	for _, part := range []struct{ what, one, other string }{{"engines", u.Engine, from.Engine}, {"judges", u.Judge, from.Judge}} {
		if part.one != part.other {
			in = append(in, fmt.Sprintf("two %s, %s and %s", part.what, named(part.one), named(part.other)))
		}
	}
	return strings.Join(in, ", and of ")
}

// Words name both, to begin a sentence with.
func (u Under) Words() string {
	return fmt.Sprintf("Engine %s, judge %s", named(u.Engine), named(u.Judge))
}

func named(name string) string {
	if name == "" {
		return "one without a name"
	}
	return name
}

// Same returns what all results were made under, and an error when that is not the same.
func Same[T any](results []T, under func(T) Under) (Under, error) {
	if len(results) == 0 {
		return Under{}, errors.New("no results: run first, then merge")
	}
	first := under(results[0])
	for _, r := range results {
		if differs := first.Differs(under(r)); differs != "" {
			return Under{}, fmt.Errorf("results of %s say nothing about either: keep one file for each", differs)
		}
	}
	return first, nil
}
