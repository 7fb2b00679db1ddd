package pipeline

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tallystick/tallystick/internal/mutant"
	"github.com/tallystick/tallystick/internal/session"
	"github.com/tallystick/tallystick/state"
)

// bases holds the committed contents of tasks. They belong to the process, not to a session: a rebuild keeps them. Each is
// leased to one token at a time; nobody reads a base without its lease.
type bases struct {
	mu       sync.Mutex
	slots    map[TaskID]*slot
	turns    int64         // assignments so far
	patience time.Duration // how long a dead token's owner has to give a lease back
}

type slot struct {
	base    state.Base
	refused map[inputOffset]*refusal // input records whose output the broker refused: a rebuild must not forget them
	holder  *lease
}

// lease is the right to a base. It belongs to the goroutine that got it, or the one that it was handed to.
type lease struct {
	owner    *bases
	id       TaskID
	base     state.Base
	refused  map[inputOffset]*refusal
	token    *session.Token
	turn     int64
	released chan struct{}
	once     sync.Once
}

func newBases(patience time.Duration) *bases {
	return &bases{slots: map[TaskID]*slot{}, patience: patience}
}

// turn numbers an assignment: of two tokens for a task in this process, the one with the later turn is right.
func (b *bases) turn() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turns++
	return b.turns
}

// lease takes the base of a task for a token, making it with create when there is none. An earlier holder's token is dead by
// then: this process was given the task anew. Its owner gives the lease back at its next loop point; one that does not within
// the bound keeps its base, and the caller gets a new one. The caller's own token dies when a later turn holds the lease.
func (b *bases) lease(ctx context.Context, id TaskID, token *session.Token, turn int64, create func() state.Base) (*lease, error) {
	bound := time.NewTimer(b.patience)
	defer bound.Stop()
	want := &lease{owner: b, id: id, token: token, turn: turn, released: make(chan struct{})}
	for {
		held := b.try(want, create, nil)
		switch {
		case held == nil:
			return want, nil
		case held.turn > turn && !mutant.On("lease-to-the-earlier"):
			token.Kill()
			return nil, fmt.Errorf("task %s was given to another worker of this process meanwhile", id)
		}
		held.token.Kill()
		select {
		case <-held.released:
		case <-bound.C:
			if b.try(want, create, held) == nil {
				return want, nil
			} // another came in between: it is looked at like any holder
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// try gives want its base if it is free, or a new one if late still holds it. Otherwise it returns the holder.
func (b *bases) try(want *lease, create func() state.Base, late *lease) *lease {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.slots[want.id]
	switch {
	case s == nil || (s.holder != nil && s.holder == late):
		s = &slot{base: create(), refused: map[inputOffset]*refusal{}}
		b.slots[want.id] = s
	case s.holder != nil && !mutant.On("base-with-two-holders"):
		return s.holder
	}
	want.base, want.refused, s.holder = s.base, s.refused, want
	return nil
}

// release gives the base back, holding nothing but what was proven or is being replayed. It may be called twice.
func (l *lease) release() {
	l.once.Do(func() {
		l.owner.mu.Lock()
		if s := l.owner.slots[l.id]; s != nil && s.holder == l {
			s.holder = nil
		}
		l.owner.mu.Unlock()
		close(l.released)
	})
}
