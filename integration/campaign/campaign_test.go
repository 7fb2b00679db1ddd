package campaign

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/integration/campaign/results"
	"github.com/tallystick/tallystick/integration/jobtest"
	"github.com/tallystick/tallystick/internal/evidence"
)

// roundFaults is how many faults share a cluster and a history.
const roundFaults = 30

// A campaign is what the environment asks for.
type campaign struct {
	faults   int
	seed     uint64
	file     string
	deadline time.Time // for the last round's begin
	under    evidence.Under
	commit   string
	kinds    []kind
}

func TestCampaign(t *testing.T) {
	c := newCampaign(t)
	command := jobtest.Build(t, nil)
	var all []results.Fault
	begin := c.next(t)
	for n := begin; n < c.faults && !t.Failed() && time.Now().Before(c.deadline); n = c.first(n, all) {
		all = append(all, c.round(t, command, n, min(c.faults-n, roundFaults))...)
	}
	if len(all) == 0 && !t.Failed() {
		t.Logf("nothing left to do: %s holds all %d faults of seed %d", c.file, c.faults, c.seed)
	}
	t.Logf("counts: faults=%d, %s", len(all), counts(all))
	if begin == 0 && !t.Failed() { // a run that goes on begins somewhere in the bag
		for _, short := range tooFew(c.kinds, all) {
			t.Error(short)
		}
	}
}

// first is the number behind what has been done.
func (c campaign) first(n int, all []results.Fault) int {
	for _, f := range all { // in the order in which they were over
		n = max(n, f.Number+1)
	}
	return n
}

func newCampaign(t *testing.T) campaign {
	t.Helper()
	root := filepath.Join("..", "..")
	c := campaign{faults: number(t, "CAMPAIGN_FAULTS", 60), seed: uint64(number(t, "CAMPAIGN_SEED", 1)), file: os.Getenv("CAMPAIGN_RESULTS"),
		deadline: time.Now().Add(time.Duration(number(t, "CAMPAIGN_MINUTES", 24*60)) * time.Minute), commit: evidence.Commit(root), kinds: kinds()}
	if names := os.Getenv("CAMPAIGN_KINDS"); names != "" {
		wanted := strings.Split(names, ",")
		c.kinds, c.file = only(c.kinds, wanted), "" // numbers mean other faults then
		if len(c.kinds) != len(wanted) {
			t.Fatalf("CAMPAIGN_KINDS=%q: %d of these are kinds, once each: docs/verification.md lists them", names, len(c.kinds))
		}
	}
	c.under = under(t, root)
	return c
}

// under names the engine, which is that of the tree unless a binary is given, and the judge.
func under(t *testing.T, root string) (u evidence.Under) {
	t.Helper()
	var err error
	if u.Engine, err = evidence.Engine(root); err == nil && os.Getenv("PROCESSOR") != "" {
		u.Engine, err = results.Binary(os.Getenv("PROCESSOR"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if u.Judge, err = evidence.CampaignJudge(root); err != nil {
		t.Fatal(err)
	}
	return u
}

func number(t *testing.T, name string, unset int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return unset
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		t.Fatalf("%s=%q: give a number from 0 on", name, s)
	}
	return n
}

// next is the first fault that the file of results does not have.
func (c campaign) next(t *testing.T) int {
	t.Helper()
	if c.file == "" {
		return 0
	}
	l, err := results.Read(c.file)
	if err != nil {
		t.Fatal(err)
	}
	next, err := l.Next(c.under, c.seed)
	if err != nil {
		t.Fatalf("%s: %v", c.file, err)
	}
	return next
}

// round runs the faults from number first on and judges their history.
func (c campaign) round(t *testing.T, command jobtest.Command, first, n int) (faults []results.Fault) {
	t.Helper()
	t.Run(fmt.Sprintf("seed-%d-from-%d", c.seed, first), func(t *testing.T) {
		began := time.Now()
		r := startRound(t, command, c.seed<<20+uint64(first))
		id := fmt.Sprintf("%d-%d-%d", c.seed, first, began.Unix())
		r.over = func(f results.Fault) {
			f.Under, f.Round = c.under, id
			t.Log(f)
			faults = append(faults, f)
			c.keep(t, results.AppendFault(c.file, f))
		}
		for k := first; k < first+n && !t.Failed(); k++ {
			if r.fault(t, planOf(c.kinds, c.seed, k)); !t.Failed() {
				r.thaw(t, false)
			}
		}
		r.thawLast(t)
		holds := r.judge(t)
		c.keep(t, results.AppendRound(c.file, results.Round{Under: c.under, Commit: c.commit, ID: id, Events: r.books.events, Aborted: r.up.abortedEvents(),
			Accounts: len(r.books.balances()), Commits: r.commits.Count(), Faults: len(faults), Took: time.Since(began), Holds: holds}))
	})
	return faults
}

func (c campaign) keep(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// counts are the faults by kind, as "kill=3, restart=1".
func counts(all []results.Fault) string {
	n := map[string]int{}
	for _, f := range all {
		n[f.Kind]++
	}
	var parts []string
	for _, k := range slices.SortedFunc(maps.Keys(n), cmp.Compare[string]) {
		parts = append(parts, fmt.Sprintf("%s=%d", k, n[k]))
	}
	return strings.Join(parts, ", ")
}

// tooFew says which kinds a run of at least one whole bag has not brought home: nine in ten of each are to have met something, and
// one at least.
func tooFew(kinds []kind, all []results.Fault) (short []string) {
	bags := len(all) / len(bagOf(kinds))
	if bags == 0 {
		return nil
	}
	n := map[string]int{}
	for _, f := range all {
		if f.Verdict != results.Missed {
			n[f.Kind]++
		}
	}
	for _, k := range kinds {
		if least := max(1, bags*k.weight*9/10); n[k.name] < least {
			short = append(short, fmt.Sprintf("%d faults of kind %s in %d met something, want at least %d", n[k.name], k.name, len(all), least))
		}
	}
	return short
}
