package state

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tallystick/tallystick/record"
)

// claims are what the mutants of this name break (internal/mutant).
var claims = map[string]func() error{
	"dedupe-not-rolled-back":   idOfAFailedRecordIsNew,
	"stream-time-not-restored": restoredTaskKeepsItsStreamTime,
	"digest-without-old-value": digestProvesTheContents,
}

func TestClaimsHold(t *testing.T) {
	for name, claim := range claims {
		t.Run(name, func(t *testing.T) {
			if err := claim(); err != nil {
				t.Error(err)
			}
		})
	}
}

type claimTask struct {
	*task
	inbox Dedupe
	rows  Table[string, string]
}

func newClaimTask() *claimTask {
	c := &claimTask{}
	c.task = newTask(func(s *stage) {
		c.inbox = NewDedupe(s, "inbox", 64*time.Second)
		c.rows = NewTable(s, "rows", record.String, record.String)
	})
	return c
}

func (c *claimTask) check(id string, ms int64) Verdict {
	return c.inbox.Check(c.view, id, at(ms), Fingerprint{})
}

// settle commits and returns what a restore makes of the log.
func (c *claimTask) settle() (*Memory, error) {
	s, err := c.view.Seal(c.marker())
	if err != nil {
		return nil, err
	}
	for _, r := range s.Records {
		c.log = append(c.log, cloneRecord(r))
	}
	if err := c.view.Merge(s, 0); err != nil {
		return nil, err
	}
	restored := NewMemory(c.specs)
	for _, r := range c.log {
		err = errors.Join(err, restored.Replay(r.Key, r.Value))
	}
	return restored, err
}

func idOfAFailedRecordIsNew() error {
	c := newClaimTask()
	c.record(1000)
	c.check("e-1", 1000)
	c.view.Rollback()
	c.record(1000)
	if v := c.check("e-1", 1000); v != New {
		return fmt.Errorf("an id that only a failed record had is %v: its event would be lost", v)
	}
	return nil
}

func restoredTaskKeepsItsStreamTime() error {
	c := newClaimTask()
	c.record(500_000)
	base, err := c.settle()
	if err != nil {
		return err
	}
	c.view = NewView(c.specs, base)
	if got := c.view.StreamTime(); got != 500_000 {
		return fmt.Errorf("stream time %d after a restore, want 500000", got)
	}
	c.record(1000)
	if v := c.check("old", 1000); v != Expired {
		return fmt.Errorf("an event far older than the window is %v after a restore: it may be applied twice", v)
	}
	return nil
}

func digestProvesTheContents() error {
	c := newClaimTask()
	for _, val := range []string{"1", "2", "", "3"} {
		c.record(1000)
		if c.rows.Put(c.view, "k", val); val == "" {
			c.rows.Delete(c.view, "k")
		}
		base, err := c.settle()
		if err != nil {
			return err
		}
		if m, _ := base.Marker(); base.Digest() != m.Digest {
			return fmt.Errorf("I3: digest %016x after a restore, the marker says %016x", base.Digest(), m.Digest)
		}
	}
	return nil
}
