package session

import "sync"

// Token is the right to process and commit one task, from one assignment to its end. The broker fences members, not
// partitions: a live member's commit for a partition that it does not own is accepted. Tokens are the only guard.
type Token struct {
	once sync.Once
	done chan struct{}
}

// NewToken returns a live token.
func NewToken() *Token { return &Token{done: make(chan struct{})} }

// Kill ends the right, once and for good. It does not block and may be called from any goroutine.
func (t *Token) Kill() { t.once.Do(func() { close(t.done) }) }

// Done is closed when the token dies.
func (t *Token) Done() <-chan struct{} { return t.done }

// Live reports whether the token is alive.
func (t *Token) Live() bool {
	select {
	case <-t.done:
		return false
	default:
		return true
	}
}
