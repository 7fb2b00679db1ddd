package results

import (
	"crypto/sha256"
	"fmt"
	"os"
	"time"

	"github.com/tallystick/tallystick/internal/evidence"
)

// The verdicts on a fault.
const (
	Survived = "survived" // the processors went on by themselves
	Helped   = "helped"   // one stopped with an error that named cause and remedy, and went on once that was followed
	Failed   = "FAILED"   // neither
	Missed   = "missed"   // the job went on, and what was to be broken never came by: it says nothing
)

// A Fault is one thing that was broken, and what became of it.
type Fault struct {
	evidence.Under

	Seed     uint64        `json:"seed"`
	Number   int           `json:"fault"`          // from 0; a seed's fault of this number is always the same
	Round    string        `json:"round"`          // the Round that judges it
	Kind     string        `json:"kind"`           // by name
	With     string        `json:"with,omitempty"` // the kind of a second fault just before it
	Detail   string        `json:"detail,omitempty"`
	Recovery time.Duration `json:"recovery_ns"` // from the fault, or the end of one that lasts, until every partition had committed newer work
	Stood    time.Duration `json:"stood_ns"`    // the longest time in which committed readers of a partition saw nothing new
	Cost     time.Duration `json:"cost_ns"`     // of the run's time
	Verdict  string        `json:"verdict"`
	At       time.Time     `json:"at"`
}

// String is the line of one fault.
func (f Fault) String() string {
	kind := f.Kind
	if f.With != "" {
		kind = f.With + " + " + kind
	}
	return fmt.Sprintf("seed %d fault %4d  %-38s recovery %6.2f s  stood %6.2f s  %s  %s", f.Seed, f.Number, kind, f.Recovery.Seconds(), f.Stood.Seconds(), f.Verdict, f.Detail)
}

// A Round is the judgement of a whole history, with all faults in it.
type Round struct {
	evidence.Under

	Commit   string        `json:"commit"` // of the tree; "-dirty" when it had changes
	ID       string        `json:"round"`
	Events   int           `json:"events"`   // committed by the upstream
	Aborted  int           `json:"aborted"`  // events of transactions that the upstream aborted
	Accounts int           `json:"accounts"` // whose balances were compared
	Commits  int           `json:"commits"`  // of the processors
	Faults   int           `json:"faults"`
	Took     time.Duration `json:"took_ns"`
	Holds    bool          `json:"holds"` // verify, balances and counts agree
}

// line is one line of the file: a fault, or the judgement of a round.
type line struct {
	Fault *Fault `json:"fault,omitempty"`
	Round *Round `json:"round,omitempty"`
}

// A Log is a file of results in which faults and rounds stand in the order in which they were over.
type Log struct {
	Faults []Fault
	Rounds []Round
}

// Read reads a file of results; one that is not there is empty.
func Read(name string) (l Log, err error) {
	lines, err := evidence.Read[line](name)
	for n, one := range lines {
		switch {
		case one.Fault != nil:
			l.Faults = append(l.Faults, *one.Fault)
		case one.Round != nil:
			l.Rounds = append(l.Rounds, *one.Round)
		default:
			return l, fmt.Errorf("%s: result %d is neither a fault nor a round: is it a file of another tool?", name, n+1)
		}
	}
	return l, err
}

// AppendFault writes a fault behind what the file holds. An empty name keeps nothing.
func AppendFault(name string, f Fault) error { return appendLine(name, line{Fault: &f}) }

// AppendRound writes a judgement behind what the file holds. An empty name keeps nothing.
func AppendRound(name string, r Round) error { return appendLine(name, line{Round: &r}) }

func appendLine(name string, l line) error {
	if name == "" {
		return nil
	}
	return evidence.Append(name, l)
}

// Judged are the faults whose round was judged; a run that was interrupted leaves others.
func (l Log) Judged() []Fault {
	judged := map[string]bool{}
	for _, r := range l.Rounds {
		judged[r.ID] = true
	}
	var all []Fault
	for _, f := range l.Faults {
		if judged[f.Round] {
			all = append(all, f)
		}
	}
	return all
}

// Next is the first fault of a seed that no judged round has. It refuses a log in which anything is of another engine or judge.
func (l Log) Next(under evidence.Under, seed uint64) (int, error) {
	for _, of := range l.under() {
		if differs := under.Differs(of); differs != "" {
			return 0, fmt.Errorf("the tree and its results are of %s: name another file of results", differs)
		}
	}
	have := map[int]bool{}
	for _, f := range l.Judged() {
		if f.Seed == seed {
			have[f.Number] = true
		}
	}
	n := 0
	for have[n] {
		n++
	}
	return n, nil
}

// under is what each round and each fault was made under.
func (l Log) under() (all []evidence.Under) {
	for _, r := range l.Rounds {
		all = append(all, r.Under)
	}
	for _, f := range l.Faults {
		all = append(all, f.Under)
	}
	return all
}

// Binary names the engine of a binary that was given instead of one built from the tree.
func Binary(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("binary-%x", sha256.Sum256(text))[:19], nil
}
