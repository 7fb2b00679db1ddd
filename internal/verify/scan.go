package verify

import (
	"bytes"
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

// scanner walks the members of one JSON object. It is owned by one goroutine and reused.
type scanner struct {
	dec jsontext.Decoder
	rd  bytes.Reader
	src []byte
}

// member is one name and value of an object, both as they stand in the source, quotes included.
type member struct{ name, value []byte }

// next moves the walk on. ok is false behind the last member.
func (s *scanner) next() (m member, ok bool, err error) {
	if s.dec.PeekKind() == '}' {
		_, err = s.dec.ReadToken()
		return m, false, err
	}
	if m.name, err = s.value(); err != nil {
		return m, false, err
	}
	if m.value, err = s.value(); err != nil {
		return m, false, err
	}
	return m, true, nil
}

// value reads one value and returns it as a slice of the source, which outlives the decoder's buffer.
func (s *scanner) value() ([]byte, error) {
	v, err := s.dec.ReadValue()
	if err != nil {
		return nil, err
	}
	end := s.dec.InputOffset()
	return s.src[end-int64(len(v)) : end], nil
}

// open starts a walk. Repeated names are let through: the caller counts them, to go on and find what else is wrong.
func (s *scanner) open(src []byte) (kind jsontext.Kind) {
	s.src = src
	s.rd.Reset(src)
	s.dec.Reset(&s.rd, jsontext.AllowDuplicateNames(true))
	return s.dec.PeekKind()
}

// enter steps into the object that open found.
func (s *scanner) enter() error {
	_, err := s.dec.ReadToken()
	return err
}

// atEnd reports whether nothing but white space follows.
func (s *scanner) atEnd() bool {
	return s.dec.PeekKind() == 0 && len(bytes.TrimLeft(s.src[s.dec.InputOffset():], " \t\r\n")) == 0
}

// text returns the contents of a JSON string; ok is false when raw is not one. It aliases raw when nothing is escaped.
func text(raw []byte) (content []byte, ok bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return nil, false
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], true
	}
	content, err := jsontext.AppendUnquote(nil, raw)
	return content, err == nil
}

// repeats reports whether a text that is not in order repeats a name, at any depth, before it breaks off.
func repeats(src []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(src))
	_, err := d.ReadValue()
	return errors.Is(err, jsontext.ErrDuplicateName)
}
