package campaign

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/integration/jobtest"
)

// places are the workers of a group at rest by the partition that each holds: three instances of two workers, and six partitions.
func (r *round) places(ctx context.Context) (map[int32]string, error) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	groups, err := r.adm.DescribeGroups(ctx, app)
	if err = errors.Join(err, groups[app].Err); err != nil {
		return nil, err
	}
	held := map[int32]string{}
	for _, m := range groups[app].Members {
		assigned, ok := m.Assigned.AsConsumer()
		if !ok || m.InstanceID == nil {
			return nil, fmt.Errorf("member %s has no assignment", m.MemberID)
		}
		for _, topic := range assigned.Topics {
			for _, p := range topic.Partitions {
				held[p] = app + "-" + *m.InstanceID
			}
		}
	}
	if workers := slices.Compact(slices.Sorted(maps.Values(held))); groups[app].State != "Stable" || len(groups[app].Members) != partitions || len(workers) != partitions {
		return nil, fmt.Errorf("the group is %s with %d members, of whom %v hold something", groups[app].State, len(groups[app].Members), workers)
	}
	return held, nil
}

// held are the places, or nothing while the group is not at rest: what moves then moves for another reason.
func (r *round) held(t *testing.T) map[int32]string {
	t.Helper()
	held, err := r.places(t.Context())
	if err != nil {
		return nil
	}
	return held
}

// comesBack wants victims that are dead to commit again. Where nothing else happened each worker is to have its own place again:
// the group keeps it for as long as the session, and nobody else commits there meanwhile.
func (r *round) comesBack(o *outcome, held map[int32]string, away time.Time, victims ...*instance) {
	since := time.Now()
	for _, v := range victims {
		o.must(func(context.Context) error { return r.commits.again(v.Name, since) })
	}
	maps.DeleteFunc(held, func(_ int32, worker string) bool {
		return !slices.ContainsFunc(victims, func(v *instance) bool { return jobtest.Commit{Writer: worker}.By(v.Name) })
	})
	if o.alone() && len(held) > 0 {
		o.must(func(ctx context.Context) error { return r.kept(ctx, o.from, away, held) })
	}
}

// kept says which of the workers that were away since a moment lost its place although half its session was not over.
func (r *round) kept(ctx context.Context, from, away time.Time, held map[int32]string) error {
	half := away.Add(sessionTimeout / 2)
	if err := taken(r.commits.after(away), held, half); err != nil {
		return err
	}
	at, err := r.commits.recovered(from)
	if err != nil || at.After(half) { // so slow a return may be later than the session
		return err
	}
	now, err := r.places(ctx)
	if err != nil {
		return err
	}
	for p, worker := range held {
		if now[p] != worker {
			return fmt.Errorf("partition %d is with %s, want it back with %s", p, now[p], worker)
		}
	}
	return nil
}

// taken says which of the commits another worker made, before a moment, where one has its place.
func taken(since []jobtest.Commit, held map[int32]string, until time.Time) error {
	for _, k := range since {
		if worker := held[k.Partition]; worker != "" && k.Writer != worker && k.Written.Before(until) {
			return fmt.Errorf("%s committed on partition %d, the place of %s, %v before half its session was over", k.Writer, k.Partition, worker, until.Sub(k.Written))
		}
	}
	return nil
}

// leaves wants the members of a processor that has ended in order to be gone, or to be there still, as its flags say.
func (r *round) leaves(t *testing.T, v *instance, before map[string]string, from time.Time) {
	t.Helper()
	after := r.memberIDs(t, v.Name)
	if leaves(v.Name) {
		if len(after) > 0 {
			t.Errorf("members %v are in the group after %s has given its places away", after, v.Name)
		}
	} else if time.Since(from) < sessionTimeout/2 {
		if gone := without(before, after); len(gone) > 0 {
			t.Errorf("members %v are not in the group after %s has ended and kept its places", gone, v.Name)
		}
	}
}

const fencedLine = "fenced the transaction of an instance that is gone"

// said is how much each processor has written to its log.
func (r *round) said(t *testing.T) map[*instance]int {
	t.Helper()
	n := map[*instance]int{}
	for _, i := range r.running() {
		n[i] = len(i.Logged(t))
	}
	return n
}

// leftOpen are the transactions of a processor that was killed, and when the broker's time-out ends each. What the dead had sent
// is decided within the second that this waits.
func (r *round) leftOpen(t *testing.T, v *instance) map[string]time.Time {
	t.Helper()
	<-time.After(time.Second)
	ids, err := jobtest.OpenTransactions(t.Context(), r.adm, v.Name+"-")
	if err != nil {
		t.Fatal(err)
	}
	open := map[string]time.Time{}
	if len(ids) == 0 {
		return open
	}
	described, err := r.adm.DescribeTransactions(t.Context(), ids...)
	if err != nil {
		t.Fatal(err)
	}
	for id, d := range described {
		if d.Err != nil {
			t.Fatal(d.Err)
		}
		if d.State == "Ongoing" {
			open[id] = time.UnixMilli(d.StartTimestamp).Add(time.Duration(d.TimeoutMillis) * time.Millisecond)
		}
	}
	return open
}

// ended says which of the transactions nobody has fenced, although the job went on before the time-out. Later than that the fault
// has missed: the broker may have been the one.
func (r *round) ended(t *testing.T, o *outcome, open map[string]time.Time, said map[*instance]int) error {
	at, err := r.commits.recovered(o.from)
	if err != nil {
		return err
	}
	for id, timeout := range open {
		if r.saidFenced(t, said, id) {
			continue
		}
		if at.Before(timeout) {
			return fmt.Errorf("the transaction of %s was open, the job went on %v before its time-out, and no log has %q", id, timeout.Sub(at), fencedLine)
		}
		o.missed()
	}
	return nil
}

func (r *round) saidFenced(t *testing.T, said map[*instance]int, id string) bool {
	for i, n := range said {
		for line := range strings.Lines(i.Logged(t)[n:]) {
			if strings.Contains(line, fencedLine) && strings.Contains(line, "txn="+id) {
				return true
			}
		}
	}
	return false
}

func TestACommitFromOutsideTheGroupAndOneInAnothersPlaceAreSeen(t *testing.T) {
	at := time.Now()
	commits := func(writer string, written time.Time) []jobtest.Commit {
		return []jobtest.Commit{{Partition: 1, Writer: "ledger-p2-0", Written: at}, {Partition: 3, Writer: writer, Written: written}}
	}
	outside := map[string]time.Time{"ledger-p1-0": at}
	held := map[int32]string{3: "ledger-p1-0"}
	for _, try := range []struct {
		writer          string
		written         time.Duration // from the moment on
		zombie, intrude bool
	}{
		{"ledger-p1-0", -time.Second, true, false},
		{"ledger-p1-0", time.Second, false, false},
		{"ledger-p1-1", -time.Second, false, true},
		{"ledger-p1-1", time.Second, false, false},
	} {
		list := commits(try.writer, at.Add(try.written))
		if err := silent(list, outside); (err != nil) != try.zombie {
			t.Errorf("a commit of %s, %v from when ledger-p1-0 was seen outside: %v", try.writer, try.written, err)
		}
		if err := taken(list, held, at); (err != nil) != try.intrude {
			t.Errorf("a commit of %s in the place of ledger-p1-0, %v from half its session: %v", try.writer, try.written, err)
		}
	}
}
