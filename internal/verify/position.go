package verify

import (
	"bytes"
	"strconv"
)

// position reads {"topic","partition","offset"}.
func (r *outcomeReader) position(raw []byte) (p position, ok bool) {
	s := &r.nested
	if s.open(raw) != '{' || s.enter() != nil {
		return p, false
	}
	seen := 0
	for {
		m, more, err := s.next()
		if err != nil {
			return p, false
		}
		if !more {
			return p, seen == 7
		}
		bit, ok := r.coordinate(&p, m)
		if !ok || seen&bit != 0 {
			return p, false
		}
		seen |= bit
	}
}

func (r *outcomeReader) coordinate(p *position, m member) (bit int, ok bool) {
	switch string(m.name) {
	case `"topic"`:
		name, ok := text(m.value)
		p.topic = r.intern(name)
		return 1, ok
	case `"partition"`:
		n, ok := parseInt(m.value)
		p.partition = int32(n)
		return 2, ok && n >= 0 && n == int64(p.partition)
	case `"offset"`:
		p.offset, ok = parseInt(m.value)
		return 4, ok && p.offset >= 0
	}
	return 0, false
}

func (r *outcomeReader) intern(name []byte) string {
	if string(name) != r.topic {
		r.topic = string(name)
	}
	return r.topic
}

// parsePosition reads topic/partition/offset, the form of headers.
func parsePosition(text []byte) (p position, ok bool) {
	second := bytes.LastIndexByte(text, '/')
	first := bytes.LastIndexByte(text[:max(second, 0)], '/')
	if first <= 0 {
		return p, false
	}
	partition, err1 := strconv.ParseInt(string(text[first+1:second]), 10, 32)
	offset, err2 := strconv.ParseInt(string(text[second+1:]), 10, 64)
	return position{string(text[:first]), int32(partition), offset}, err1 == nil && err2 == nil && partition >= 0 && offset >= 0
}
