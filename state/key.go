package state

import (
	"bytes"
	"fmt"
)

// A state key is: 1 byte length of the store's name, the name, the encoded key. A first byte of 0 is reserved.
const reservedByte = 0

// markerKey is the key of the applied marker.
const markerKey = "\x00m"

// Key returns the key of the marker's record, for who writes a task's first one without running it.
func (Marker) Key() []byte { return []byte(markerKey) }

// IsMarker reports whether key is the key of the applied marker.
func IsMarker(key []byte) bool { return string(key) == markerKey }

// appendPrefix appends what every state key of the store begins with.
func appendPrefix(dst []byte, store string) []byte {
	return append(append(dst, byte(len(store))), store...)
}

// splitKey returns the store's name and the encoded key; both alias key.
func splitKey(key []byte) (store, rest []byte, err error) {
	if len(key) == 0 || key[0] == reservedByte {
		return nil, nil, fmt.Errorf("state key %x: not a store's key; a first byte of 0 is reserved, so a newer program may have written it", clip(key))
	}
	n := int(key[0]) + 1
	if len(key) < n || !validName(string(key[1:n])) {
		return nil, nil, fmt.Errorf("state key %x: begins with no store name: not written by this program, is it the right topic?", clip(key))
	}
	return key[1:n], key[n:], nil
}

// successor turns a store's prefix into the first key behind all its keys: names end below 0xff.
func successor(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	end[len(end)-1]++
	return end
}

// clip keeps errors short and mostly free of user data.
func clip(b []byte) []byte { return b[:min(len(b), 16)] }
