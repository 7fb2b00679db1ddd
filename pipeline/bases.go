package pipeline

import (
	"context"
	"sync"
	"time"

	"github.com/tallystick/tallystick/internal/session"
	"github.com/tallystick/tallystick/state"
)

// bases holds the committed contents of tasks. They belong to the process, not to a session: a rebuild keeps them. Each is
// leased to one token at a time; nobody reads a base without its lease.
type bases struct {
	mu       sync.Mutex
	slots    map[TaskID]*slot
	patience time.Duration // how long a dead token's owner has to give a lease back
}

type slot struct {
	base   state.Base
	holder *lease
}

// lease is the right to a base. It belongs to the goroutine that got it, or the one that it was handed to.
type lease struct {
	owner    *bases
	id       TaskID
	base     state.Base
	token    *session.Token
	released chan struct{}
	once     sync.Once
}

func newBases(patience time.Duration) *bases {
	return &bases{slots: map[TaskID]*slot{}, patience: patience}
}

// lease takes the base of a task for a token, making it with create when there is none. A holder's token is dead by then:
// this process was given the task anew. Its owner gives the lease back at its next loop point; one that does not within the
// bound keeps its base, and the caller gets a new one.
func (b *bases) lease(ctx context.Context, id TaskID, token *session.Token, create func() state.Base) (*lease, error) {
	bound := time.NewTimer(b.patience)
	defer bound.Stop()
	for {
		l, held := b.try(id, token, create, false)
		if l != nil {
			return l, nil
		}
		held.token.Kill()
		select {
		case <-held.released:
		case <-bound.C:
			l, _ = b.try(id, token, create, true)
			return l, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// try takes the lease if it is free, or by force with a new base. Otherwise it returns the holder.
func (b *bases) try(id TaskID, token *session.Token, create func() state.Base, force bool) (*lease, *lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.slots[id]
	switch {
	case s == nil || (s.holder != nil && force):
		s = &slot{base: create()}
		b.slots[id] = s
	case s.holder != nil:
		return nil, s.holder
	}
	s.holder = &lease{owner: b, id: id, base: s.base, token: token, released: make(chan struct{})}
	return s.holder, nil
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
