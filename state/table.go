package state

import (
	"errors"
	"iter"

	"github.com/tallystick/tallystick/internal/mutant"
	"github.com/tallystick/tallystick/record"
)

// Table is a store of one value per key. It is a value: copy it freely. All methods work within the record of their Scope:
// they see its writes, and a failed record's writes are undone. They return no errors, see View.
type Table[K, V any] struct {
	spec   *Spec
	prefix string
	key    record.Codec[K]
	value  record.Codec[V]
}

// NewTable declares a table on a stage. The name and the codecs' ids are part of what is stored and cannot change later,
// but for what CheckFingerprint allows.
func NewTable[K, V any](d Declarer, name string, key record.Codec[K], value record.Codec[V]) Table[K, V] {
	spec := d.DeclareStore(Spec{Name: name, Kind: KindTable, KeyCodec: key.ID(), ValueCodec: value.ID(),
		codecs: errors.Join(record.CheckCodec(key), record.CheckCodec(value))})
	return Table[K, V]{spec, string(appendPrefix(nil, name)), key, value}
}

// Table returns a handle that reads a table's keys and values as they are stored, for who knows only its Spec. The bytes are
// copies.
func (s *Spec) Table() Table[[]byte, []byte] {
	return Table[[]byte, []byte]{s, string(appendPrefix(nil, s.Name)), record.Bytes, record.Bytes}
}

// Get returns the value of k; false and the zero value when there is none.
func (t Table[K, V]) Get(s Scope, k K) (V, bool) {
	v := s.View()
	if v.owns(t.spec) {
		if key, ok := t.encodeKey(v, k); ok {
			if b, ok := v.get(t.spec, key); ok {
				return t.decodeValue(v, key, b)
			}
		}
	}
	var zero V
	return zero, false
}

// Put sets the value of k. A value that its codec encodes as Kafka's null (record.Nullable) deletes the row, as in Kafka
// Streams.
func (t Table[K, V]) Put(s Scope, k K, val V) {
	v := s.View()
	if !v.mayWrite(t.spec) {
		return
	}
	key, ok := t.encodeKey(v, k)
	if !ok {
		return
	}
	if v.scratch == nil {
		v.scratch = []byte{} // no bytes and no value are not the same
	}
	b, err := t.value.Append(v.scratch[:0], val)
	if err != nil {
		v.fail(t.spec, key, "encode value", t.value.ID(), err)
		return
	}
	if b != nil {
		v.scratch = b
	}
	v.set(t.spec, key, b)
}

// Delete removes k, if it is there.
func (t Table[K, V]) Delete(s Scope, k K) {
	v := s.View()
	if !v.mayWrite(t.spec) {
		return
	}
	if key, ok := t.encodeKey(v, k); ok {
		v.set(t.spec, key, nil)
	}
}

// All yields all rows in the order of their encoded keys. The loop may write: a row is yielded with the value that it has
// when it is reached, and keys added during the loop are left out.
func (t Table[K, V]) All(s Scope) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if v := s.View(); v.owns(t.spec) {
			from := []byte(t.prefix)
			t.ascend(v, from, successor(from), yield)
		}
	}
}

// Range is All for the rows with from <= key < to, in the order of encoded keys.
func (t Table[K, V]) Range(s Scope, from, to K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		v := s.View()
		if !v.owns(t.spec) {
			return
		}
		low, ok1 := t.encodeKey(v, from)
		low = append([]byte(nil), low...)
		high, ok2 := t.encodeKey(v, to)
		if ok1 && ok2 {
			t.ascend(v, low, append([]byte(nil), high...), yield)
		}
	}
}

// From is All for the rows with from <= key, in the order of encoded keys.
func (t Table[K, V]) From(s Scope, from K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		v := s.View()
		if !v.owns(t.spec) {
			return
		}
		if low, ok := t.encodeKey(v, from); ok {
			t.ascend(v, append([]byte(nil), low...), successor([]byte(t.prefix)), yield)
		}
	}
}

func (t Table[K, V]) ascend(v *View, from, to []byte, yield func(K, V) bool) {
	err := v.ascend(from, to, func(key, b []byte) bool {
		k, err := t.key.Decode(key[len(t.prefix):])
		if err != nil {
			v.fail(t.spec, key, "decode key", t.key.ID(), err)
			return false
		}
		val, ok := t.decodeValue(v, key, b)
		return ok && yield(k, val) && v.err == nil
	})
	if err != nil {
		v.fail(t.spec, from, "iterate", t.key.ID(), err)
	}
}

// encodeKey returns the state key of k in a buffer of the View, which the next call overwrites.
func (t Table[K, V]) encodeKey(v *View, k K) ([]byte, bool) {
	prefixed := append(v.key[:0], t.prefixIn(v)...)
	key, err := t.key.Append(prefixed, k)
	if err != nil {
		v.fail(t.spec, prefixed, "encode key", t.key.ID(), err)
		return nil, false
	}
	v.key = key
	return key, true
}

// prefixIn returns the prefix of the table's rows in a View that owns it. (The sabotage is a handle that is a mere index: on
// another stage's View it means whatever store stands at its place there.)
func (t Table[K, V]) prefixIn(v *View) string {
	if mutant.On("foreign-handle") {
		return string(appendPrefix(nil, v.specs[t.spec.Index].Name))
	}
	return t.prefix
}

func (t Table[K, V]) decodeValue(v *View, key, b []byte) (V, bool) {
	val, err := t.value.Decode(b)
	if err != nil {
		v.fail(t.spec, key, "decode value (the stored bytes are damaged, or another codec wrote them: restore the task, or revert the codec)", t.value.ID(), err)
		var zero V
		return zero, false
	}
	return val, true
}
