package record

// Optional is a value or Kafka's null, which in a topic of a table's changes (a compacted one) is the deletion of the key:
// a tombstone. The zero Optional is the null.
type Optional[T any] struct {
	Value T    // the zero value when not Set
	Set   bool // false is the null
}

// Some returns the Optional that holds v.
func Some[T any](v T) Optional[T] { return Optional[T]{Value: v, Set: true} }

// Nullable is a codec that knows Kafka's null beside what c encodes: null and an encoding of zero bytes are different. Its ID is
// c's, because the bytes are.
//
// Without it a null reaches c's Decode as no bytes: [String] makes "" of it, [JSON] and [Int64] refuse it, and what is encoded
// is never null.
func Nullable[T any](c Codec[T]) Codec[Optional[T]] { return nullable[T]{c} }

type nullable[T any] struct{ codec Codec[T] }

func (n nullable[T]) ID() string { return n.codec.ID() }

// Append returns nil for the null: what is sent is then null, and what is put into a table is deleted.
func (n nullable[T]) Append(dst []byte, v Optional[T]) ([]byte, error) {
	if !v.Set {
		return nil, nil
	}
	b, err := n.codec.Append(dst, v.Value)
	if b == nil && err == nil {
		b = []byte{}
	}
	return b, err
}

func (n nullable[T]) Decode(src []byte) (Optional[T], error) {
	if src == nil {
		return Optional[T]{}, nil
	}
	v, err := n.codec.Decode(src)
	return Optional[T]{Value: v, Set: err == nil}, err
}

// MayBegin, versionOf and declared make a Nullable the old codec of a Versioned, as what it wraps is one.
func (n nullable[T]) MayBegin(b byte) bool {
	c, ok := any(n.codec).(Beginner)
	return !ok || c.MayBegin(b)
}

func (n nullable[T]) versionOf() (byte, string) { return versionOf(n.codec) }

func (n nullable[T]) declared() error { return CheckCodec(n.codec) }
