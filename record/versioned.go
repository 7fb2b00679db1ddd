package record

import (
	"errors"
	"fmt"
)

// MaxVersion is the highest version that Versioned takes: as many as there are first bytes with which no JSON text begins.
const MaxVersion = 28

// ErrNewerVersion says that a newer version of the program wrote a value. It is found by errors.Is in what Decode returns.
var ErrNewerVersion = errors.New("a newer version of the program wrote this value: run that version")

// Beginner is what Versioned needs of the codec that it replaces: to know how the bytes that are already there can begin.
// JSON and Versioned have it. A codec of your own whose encodings begin like JSON's may say so: return b >= ' '. String, Bytes
// and Int64 can begin with any byte, so that no first byte could tell their values from newer ones.
type Beginner interface {
	// MayBegin reports whether an encoding can begin with b.
	MayBegin(b byte) bool
}

// Versioned returns the codec of a value whose form has changed. It writes now's form behind a first byte that tells the
// version, and reads what old wrote too, made new by upgrade: values of both forms can stand beside each other for ever. Its
// ID is that of the first form with the version, "json+v2", which the fingerprint of a stage accepts after "json" and never
// before it. Versions count from 2, each one more than that of old, so that "json+v3" says that v2 and plain JSON are read too:
//
//	record.Versioned(3, record.JSON[Account](), record.Versioned(2, record.JSON[accountV2](), record.JSON[accountV1](), toV2), toV3)
//
// upgrade must be a pure function: it is called at each read until the value is written again. Null (nil) is read by now. A
// value of a higher version is a MalformedError "newer_version" that wraps ErrNewerVersion. Another version, no upgrade, or an
// old codec that is no Beginner is reported by CheckCodec, which stores and topics of a pipeline ask, and by each Append and Decode.
func Versioned[T, Old any](version byte, now Codec[T], old Codec[Old], upgrade func(Old) T) Codec[T] {
	c := versioned[T, Old]{version: version, now: now, old: old, upgrade: upgrade}
	c.err = c.check()
	return c
}

// CheckCodec returns what is wrong with the declaration of a codec, nil if nothing is known to be. The error says what to do.
func CheckCodec(codec any) error {
	if c, ok := codec.(interface{ declared() error }); ok {
		return c.declared()
	}
	return nil
}

type versioned[T, Old any] struct {
	version byte
	now     Codec[T]
	old     Codec[Old]
	upgrade func(Old) T
	err     error // the declaration is wrong
}

// versioner is any Versioned, whatever its types.
type versioner interface{ versionOf() (byte, string) }

// versionOf returns the version of a codec, 1 if it has none, and the ID of the first form.
func versionOf(codec interface{ ID() string }) (version byte, base string) {
	if v, ok := codec.(versioner); ok {
		return v.versionOf()
	}
	return 1, codec.ID()
}

func (c versioned[T, Old]) versionOf() (byte, string) {
	if c.old == nil {
		return c.version, "?"
	}
	_, base := versionOf(c.old)
	return c.version, base
}

func (c versioned[T, Old]) check() error {
	if c.now == nil || c.old == nil || c.upgrade == nil {
		return fmt.Errorf("version %d of a codec lacks the new codec, the old one or the upgrade: give all three", c.version)
	}
	was, base := versionOf(c.old)
	begins, known := any(c.old).(Beginner)
	switch {
	case CheckCodec(c.old) != nil:
		return CheckCodec(c.old)
	case c.version != was+1 || c.version > MaxVersion:
		return fmt.Errorf("codec %q: version %d follows version %d: count on by one, up to %d; then begin a new store", base, c.version, was, MaxVersion)
	case !known:
		return fmt.Errorf("codec %q: nobody knows how its encodings begin, so version %d could not be told from them: give it the method MayBegin, or begin a new store", base, c.version)
	case begins.MayBegin(lead(c.version)):
		return fmt.Errorf("codec %q: its encodings can begin with byte %#02x, the mark of version %d: begin a new store", base, lead(c.version), c.version)
	}
	return nil
}

func (c versioned[T, Old]) declared() error {
	if c.err != nil {
		return c.err
	}
	return CheckCodec(c.now)
}

func (c versioned[T, Old]) ID() string {
	_, base := c.versionOf()
	return fmt.Sprintf("%s+v%d", base, c.version)
}

// MayBegin makes a Versioned the old codec of the next one.
func (c versioned[T, Old]) MayBegin(b byte) bool {
	old, ok := any(c.old).(Beginner)
	return b == lead(c.version) || !ok || old.MayBegin(b)
}

func (c versioned[T, Old]) Append(dst []byte, v T) ([]byte, error) {
	if c.err != nil {
		return dst, c.err
	}
	b, err := c.now.Append(append(dst, lead(c.version)), v)
	if err != nil {
		return dst, err
	}
	return b, nil
}

func (c versioned[T, Old]) Decode(src []byte) (v T, err error) {
	switch {
	case c.err != nil:
		return v, c.err
	case src == nil:
		return c.now.Decode(nil)
	case len(src) > 0 && src[0] == lead(c.version):
		return c.now.Decode(src[1:])
	case len(src) > 0 && c.isNewer(src[0]):
		return v, &MalformedError{"newer_version", fmt.Errorf("version %d, this program knows %d: %w", versionAt(src[0]), c.version, ErrNewerVersion)}
	}
	old, err := c.old.Decode(src)
	if err != nil {
		return v, err
	}
	return c.upgrade(old), nil
}

// isNewer reports whether b marks a version that this program does not know. A byte with which the first form can begin is none.
func (c versioned[T, Old]) isNewer(b byte) bool {
	n := versionAt(b)
	return n > c.version && !c.MayBegin(b)
}

// lead is the first byte of a version: the control characters from 2 on without 9, 10 and 13, which are JSON's white space.
// Frozen: it stands before every value that was ever written.
func lead(version byte) byte {
	switch {
	case version < 9:
		return version
	case version < 11:
		return version + 2
	}
	return version + 3
}

// versionAt is the version that a first byte marks, 0 if none.
func versionAt(b byte) byte {
	for v := byte(2); v <= MaxVersion; v++ {
		if lead(v) == b {
			return v
		}
	}
	return 0
}
