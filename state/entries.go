package state

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
)

// Entry is one thing that a store holds, whichever transaction wrote it.
type Entry struct {
	Store string
	Key   []byte // a table's encoded key, or an ID
	Value []byte // a table's encoded value; nil for an id
	Seen  Seen   // of an id: where it was first seen, and with what content
}

// Entries returns what the stores hold as their handles would show it, by store and key: the rows of tables, and the ids that
// still count. So two bases that took the same records in different transactions have the same entries but for Seen.TxnSeq,
// where their digests and packed records differ. The entries are copies.
func Entries(specs []*Spec, base Base) ([]Entry, error) {
	byName := map[string]*Spec{}
	for _, s := range specs {
		byName[s.Name] = s
	}
	var entries []Entry
	var failed error
	err := base.Ascend(nil, nil, func(key, value []byte) bool {
		name, rest, err := splitKey(key)
		spec := byName[string(name)]
		switch {
		case err != nil:
			failed = err
		case spec == nil:
			failed = fmt.Errorf("state key %x: store %q is not declared", clip(key), name)
		case spec.Kind == KindDedupe:
			entries, failed = appendIDs(entries, spec, base, value)
		default:
			entries = append(entries, Entry{Store: spec.Name, Key: bytes.Clone(rest), Value: bytes.Clone(value)})
		}
		return failed == nil
	})
	slices.SortStableFunc(entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Store, b.Store), bytes.Compare(a.Key, b.Key))
	})
	return entries, either(failed, err)
}

func either(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// appendIDs appends the ids of a packed record that count. An id that was remembered again later is in another record.
func appendIDs(entries []Entry, spec *Spec, base Base, value []byte) ([]Entry, error) {
	marker, _ := base.Marker()
	p := newPending(spec)
	p.begin(base, marker)
	horizon := p.horizon(marker.StreamTime)
	var failed error
	err := parsePacked(value, func(g packedGroup) bool {
		for b := g.ids; len(b) > 0; b = b[packedIDSize:] {
			id, _, offset := parsePackedID(b)
			seen, ok, err := base.Seen(spec.Name, id)
			if err != nil {
				failed = err
				return false
			}
			if ok && seen.BucketEnd > horizon && seen.Offset == offset && seen.Topic == string(g.topic) {
				entries = append(entries, Entry{Store: spec.Name, Key: bytes.Clone(id[:]), Seen: seen})
			}
		}
		return true
	})
	return entries, either(failed, err)
}
