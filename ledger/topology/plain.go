package topology

import "unicode/utf8"

// readPlain fills m from the plain shape of an event: an object of known names, once each, with string values and nothing
// escaped. It returns false for anything else, which read then judges. It exists for speed alone: what it accepts, read
// accepts with the same result (FuzzEvent compares them).
func (m *members) readPlain(src []byte) bool {
	i := skipSpace(src, 0)
	if i == len(src) || src[i] != '{' {
		return false
	}
	for {
		name, next, ok := plainString(src, skipSpace(src, i+1))
		if i = skipSpace(src, next); !ok || i == len(src) || src[i] != ':' {
			return false
		}
		value, next, ok := plainString(src, skipSpace(src, i+1))
		k := memberOf(name)
		if i = skipSpace(src, next); !ok || i == len(src) || k == noMember || m[k] != nil {
			return false
		}
		m[k] = value
		if src[i] == '}' {
			return skipSpace(src, i+1) == len(src)
		}
		if src[i] != ',' {
			return false
		}
	}
}

func skipSpace(src []byte, i int) int {
	for i < len(src) && (src[i] == ' ' || src[i] == '\n' || src[i] == '\r' || src[i] == '\t') {
		i++
	}
	return i
}

// plainString returns the contents of the string that begins at i, never nil, and the index behind it.
func plainString(src []byte, i int) (text []byte, next int, ok bool) {
	if i == len(src) || src[i] != '"' {
		return nil, i, false
	}
	ascii := true
	for j := i + 1; j < len(src); j++ {
		switch c := src[j]; {
		case c == '"':
			text = src[i+1 : j : j]
			return text, j + 1, ascii || utf8.Valid(text)
		case c < ' ' || c == '\\':
			return nil, i, false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return nil, i, false
}
