package pipeline

import (
	"math"
	"time"

	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
)

// Ctx is one record's place in the open transaction, for its handler and for the timers that it makes due. It is valid until the
// function that got it returns and belongs to its goroutine. It is not a context.Context: nothing in a handler blocks.
type Ctx struct {
	task *Task
	in   *Input
	time int64 // ms: the record's, or a timer's boundary
	err  error // the first failed Send: the record fails with it
}

// View makes a Ctx a state.Scope.
func (c *Ctx) View() *state.View { return c.task.view }

// Source returns where the record stands. Ids derived from it change when a topic is copied; business ids do not.
func (c *Ctx) Source() record.Position { return c.in.Position }

// Time returns the record's timestamp, in a timer its boundary.
func (c *Ctx) Time() time.Time { return time.UnixMilli(c.time).UTC() }

// StreamTime returns the highest timestamp that the task has applied, this record's included; in a timer, which comes before the
// record, its boundary. It never goes back.
func (c *Ctx) StreamTime() time.Time {
	ms := c.task.view.StreamTime()
	if ms == math.MinInt64 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func (c *Ctx) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}
