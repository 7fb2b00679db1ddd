package generate

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"

	"github.com/tallystick/tallystick/ledger"
)

// Config describes a workload. The fractions are of all events, each from 0 to 1, together at most 1; the rest is applied.
type Config struct {
	Events     int     // how many records; 0 = none
	Accounts   int     // how many accounts are in ordinary use; 0 = 1,000. Up to three more serve refusals
	Duplicates float64 // delivered again with the same content, though not always the same bytes
	Conflicts  float64 // delivered again with other content
	Malformed  float64 // no events at all
	Refused    float64 // well-formed, but against a rule
	Seed       uint64
}

// Header is a header of a record.
type Header struct {
	Key   string
	Value []byte
}

// Class is what a correct ledger makes of a record.
type Class struct {
	Outcome ledger.Outcome
	Reason  ledger.Reason // "" for what is applied
}

// Record is one record for the ledger's input. Its slices are the caller's; a nil Key or Value is Kafka's null.
type Record struct {
	Key, Value []byte
	Headers    []Header // in the order of sending; nil for most
	Class      Class    // what becomes of the record
}

// Generator makes the records of one workload. It is used by one goroutine.
type Generator struct {
	cfg      Config
	rng      *rand.Rand
	made     int
	below    [4]uint64 // cumulated shares of duplicates, conflicts, malformed, refused, in 1<<32
	accounts []account
	special  [specials]account
	history  []event // the latest events that an inbox remembers, as a ring
	seen     int     // events that went through history
	refusal  int     // next kind of refusal, in turn
	faults   []fault // kinds of malformed input
	fault    int     // the next one, in turn
	members  []member
}

const (
	defaultAccounts = 1000
	historyLen      = 1024
	share           = 1 << 32
)

// New returns a generator, or what is wrong with the configuration.
func New(cfg Config) (*Generator, error) {
	if cfg.Accounts == 0 {
		cfg.Accounts = defaultAccounts
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	g := &Generator{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0x7a11)), faults: faults()}
	sum := 0.0
	for i, f := range []float64{cfg.Duplicates, cfg.Conflicts, cfg.Malformed, cfg.Refused} {
		sum += f
		g.below[i] = uint64(sum * share)
	}
	g.accounts = make([]account, cfg.Accounts)
	for i := range g.accounts {
		g.accounts[i] = newAccount(accountID(i), i)
	}
	for i := range g.special {
		g.special[i] = newAccount(specialIDs[i], i)
	}
	return g, nil
}

func (c Config) validate() error {
	var errs []error
	if c.Events < 0 || c.Accounts < 0 {
		errs = append(errs, fmt.Errorf("%d events over %d accounts: give numbers from 0 on", c.Events, c.Accounts))
	}
	sum := 0.0
	for name, f := range map[string]float64{"duplicates": c.Duplicates, "conflicts": c.Conflicts, "malformed": c.Malformed, "refused": c.Refused} {
		if !(f >= 0 && f <= 1) {
			errs = append(errs, fmt.Errorf("%s is %v: give a fraction from 0 to 1", name, f))
		}
		sum += f
	}
	if sum > 1+1e-9 {
		errs = append(errs, fmt.Errorf("duplicates, conflicts, malformed and refused add up to %v: leave a sum of at most 1", sum))
	}
	return errors.Join(errs...)
}

// Next returns the next record, and false behind the last. What cannot be made yet, such as a duplicate of nothing, is
// replaced by an event that is applied.
func (g *Generator) Next() (Record, bool) {
	if g.made == g.cfg.Events {
		return Record{}, false
	}
	g.made++
	draw := uint64(g.rng.Uint32())
	switch {
	case draw < g.below[0] && len(g.history) > 0:
		return g.duplicate(), true
	case draw < g.below[1] && len(g.history) > 0:
		return g.conflict(), true
	case draw >= g.below[1] && draw < g.below[2]:
		return g.malformed(), true
	case draw >= g.below[2] && draw < g.below[3]:
		return g.refused(), true
	}
	return g.applied(), true
}

// All yields the records that Next would return.
func (g *Generator) All() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for r, ok := g.Next(); ok && yield(r); r, ok = g.Next() {
		}
	}
}

// duplicate delivers an event again: what the client saw as a time-out, a retry, a replay.
func (g *Generator) duplicate() Record {
	e := g.history[g.rng.IntN(len(g.history))]
	e.style = style(g.rng.Uint32())
	return g.record(e, Class{ledger.Passed, ledger.Duplicate})
}

// conflict gives an id that is taken to another event.
func (g *Generator) conflict() Record {
	e := g.history[g.rng.IntN(len(g.history))]
	if e.amount != "" && g.rng.IntN(2) == 0 {
		e.amount = otherAmount(e.amount)
	} else {
		e.at++
	}
	return g.record(e, Class{ledger.DeadLettered, ledger.Conflict})
}

// remember keeps an event that the inbox now knows.
func (g *Generator) remember(e event) {
	if len(g.history) < historyLen {
		g.history = append(g.history, e)
	} else {
		g.history[g.seen%historyLen] = e
	}
	g.seen++
}
