package state

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind says what a store is. It is part of the topology fingerprint.
type Kind string

// The kinds of stores.
const (
	KindTable  Kind = "table"
	KindDedupe Kind = "dedupe"
)

// Spec is a store as it was declared. Handles carry the pointer that their declaration returned, so that a handle used on
// another stage's View is noticed instead of writing into a foreign store.
type Spec struct {
	Index                int // position among the stage's stores; set by the Declarer
	Name                 string
	Kind                 Kind
	KeyCodec, ValueCodec string        // Codec.ID(); empty for a dedupe store
	Window               time.Duration // dedupe stores only; whole milliseconds count
	codecs               error         // what is wrong with the declaration of a codec
}

// Declarer is what a store is declared on: a stage. It keeps a copy of the Spec, sets its Index and returns its address,
// which stays valid for the life of the program.
type Declarer interface{ DeclareStore(Spec) *Spec }

// Scope is where a handle reads and writes: a handler's context, or a View of committed contents in a query or test.
type Scope interface{ View() *View }

// Validate reports all that is wrong with a declaration, each with what is accepted.
func (s *Spec) Validate() error {
	var errs []error
	if !validName(s.Name) {
		errs = append(errs, fmt.Errorf("store name %q: want 1 to 64 of a-z 0-9 . _ - that start with a letter or digit", s.Name))
	}
	switch s.Kind {
	case KindTable:
		errs = append(errs, validCodec(s.Name, "key", s.KeyCodec), validCodec(s.Name, "value", s.ValueCodec))
		if s.codecs != nil {
			errs = append(errs, fmt.Errorf("store %q: %w", s.Name, s.codecs))
		}
	case KindDedupe:
		if s.Window < time.Millisecond {
			errs = append(errs, fmt.Errorf("store %q: window %v: want at least 1ms, and longer than a redelivery can take", s.Name, s.Window))
		}
	default:
		errs = append(errs, fmt.Errorf("store %q: kind %q: want table or dedupe", s.Name, s.Kind))
	}
	return errors.Join(errs...)
}

// validName is the law that keeps state keys and fingerprint lines parseable: no name byte can end a prefix or a field.
func validName(name string) bool {
	if len(name) == 0 || len(name) > 64 || strings.IndexByte("._-", name[0]) >= 0 {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("._-", c) >= 0) {
			return false
		}
	}
	return true
}

// validCodec refuses ids that would tear the fingerprint text apart; "-" there means none.
func validCodec(store, role, id string) error {
	if id == "" || id == "-" || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("store %q: %s codec id %q: want printable ASCII without spaces, other than -", store, role, id)
	}
	return nil
}
