package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tallystick/tallystick/internal/mutant"
	"github.com/tallystick/tallystick/state"
)

// timer is a function that a stage calls when stream time passes a multiple of every. It has no state: whether it is due follows
// from the stream time that the marker keeps and from the next record.
type timer struct {
	every int64 // ms
	call  func(c *Ctx, boundary time.Time) error
}

// Every declares a timer on stream time: f is called when a record moves the task's stream time to or past a multiple of d since
// 1970 (UTC), before that record is handled, in its transaction and in its savepoint. However many multiples the record
// passes, f is called once, with the last. Of several timers the one with the earlier boundary goes first, then by declaration.
//
// In f, Time and StreamTime are the boundary, and Source is the record that moved time. Outputs have the boundary as their timestamp. What f reads
// and writes is the task's own state: each task has a stream time of its own, and its own calls.
//
//   - Without records no time passes and no timer fires; before a task's first record it has no stream time, so that the first
//     record fires nothing.
//   - A record that fails does not move time: the call is undone with it, and comes again with the next record. A dead letter and a
//     skipped record have failed in this sense.
//   - An error of f, a panic, a value too large, or a refusal of f's outputs by the broker stops the task, under any policy: the record is
//     not to blame. A DeadLetter returned by f does too: there is no record of f's own to send there.
//
// f must depend on its arguments and the stage's stores alone, as a handler. d must be whole milliseconds, at least one. Timers
// may be added, changed and removed between versions.
func (s *Stage) Every(d time.Duration, f func(c *Ctx, boundary time.Time) error) {
	switch {
	case f == nil:
		s.Refuse(fmt.Errorf("the function of its timer of %s is nil", d))
	case d < time.Millisecond || d%time.Millisecond != 0:
		s.Refuse(fmt.Errorf("its timer of %s: use whole milliseconds, at least one, as record times have", d))
	}
	s.timers = append(s.timers, timer{max(1, d.Milliseconds()), f})
}

// firing is a timer that is due.
type firing struct {
	timer    *timer
	boundary int64 // ms
}

// savepoint begins a record. With timers, stream time is left where it was until they have been called.
func (t *Task) savepoint(in *Input) {
	at := in.Timestamp
	if len(t.stage.timers) > 0 {
		at = state.NoStreamTime
	}
	t.view.Savepoint(in.Position, at)
}

// fire calls the timers that a record makes due, and moves stream time on to the record.
func (t *Task) fire(in *Input) error {
	if len(t.stage.timers) == 0 {
		return nil
	}
	for _, due := range t.dueBy(in.Timestamp) {
		t.view.Advance(due.boundary)
		t.ctx = Ctx{task: t, in: in, time: due.boundary}
		if err := t.fireOne(due); err != nil {
			return err
		}
	}
	for i := range t.out { // all so far are the timers': the record is handled after them
		t.out[i].fired = true
	}
	if mutant.On("timer-outside-savepoint") && len(t.due) > 0 {
		t.savepoint(in)
	}
	t.view.Advance(in.Timestamp)
	return nil
}

// fireOne calls a timer. Whatever goes wrong is not the record's fault.
func (t *Task) fireOne(due firing) error {
	boundary := t.ctx.Time()
	err := due.timer.call(&t.ctx, boundary)
	if t.ctx.err != nil {
		err = t.ctx.err // a failed Send cannot be swallowed
	}
	if err == nil {
		err = t.limits.check(t.stateTopic, t.view.LargestWrite())
	}
	switch {
	case err == nil:
		return nil
	case isDeadLetter(err):
		err = errors.New("it returned a dead letter, and a timer has no record to send there: write to an output, or return a plain error to stop the task: " + err.Error())
	}
	return &unpolicedError{fmt.Errorf("timer of %s at boundary %s: %w", time.Duration(due.timer.every)*time.Millisecond, boundary.Format(time.RFC3339Nano), err)}
}

// dueBy returns the timers of which a boundary lies above stream time and not above ms, each with the last such boundary. The
// slice is the task's.
func (t *Task) dueBy(ms int64) []firing {
	t.due = t.due[:0]
	was := t.view.StreamTime()
	if was == state.NoStreamTime {
		return t.due
	}
	for i := range t.stage.timers {
		timer := &t.stage.timers[i]
		if boundary := floor(ms, timer.every); boundary > was || mutant.On("timer-fires-twice") && boundary == was {
			t.due = append(t.due, firing{timer, boundary})
		}
	}
	slices.SortStableFunc(t.due, func(a, b firing) int { return cmp.Compare(a.boundary, b.boundary) })
	return t.due
}

// floor is the last multiple of every that is not above ms.
func floor(ms, every int64) int64 {
	rest := ms % every
	if rest < 0 {
		rest += every
	}
	return ms - rest
}

// timed says that a wrong record time of the stage's inputs would fire a timer, here or behind a repartition topic.
func (s *Stage) timed() bool {
	return slices.ContainsFunc(s.reached(), func(at *Stage) bool { return len(at.timers) > 0 })
}
