package state

// Record is one record of a state topic. A nil Value is a tombstone.
type Record struct{ Key, Value []byte }

// Batch is what a proven commit adds to a Base.
type Batch struct {
	Records  []Record // table changes, packed ids, tombstones; not the marker
	Marker   Marker
	Position int64 // next offset in the state topic
}

// ID is a remembered event id: the first 16 bytes of its SHA-256. Callers choose ids and could forge a weaker hash.
type ID [16]byte

// Seen is what a Base knows of an id.
type Seen struct {
	BucketEnd   int64  // ms, exclusive
	TxnSeq      uint64 // of the transaction that remembered it
	Fingerprint uint64
	Topic       string // where it was first seen; the partition is the task's
	Offset      int64
}

// Base holds the committed contents of one task's stores. It changes only by a proven commit (Apply) and by restore (Replay).
// It belongs to one goroutine at a time. After an error of Apply or Replay its contents are undefined until Reset.
type Base interface {
	// Get returns the value of a table's state key. The value must not be changed and is valid until the next Apply, Replay or
	// Reset.
	Get(key []byte) (value []byte, ok bool, err error)
	// Ascend yields live records, packed ids included, in key order, from <= key < to; to nil is the end. Key and value are
	// valid during the call of yield, which may read the Base.
	Ascend(from, to []byte, yield func(key, value []byte) bool) error
	// Seen returns where an id was last remembered, whether or not it still counts.
	Seen(store string, id ID) (Seen, bool, error)
	// Floor returns the end of the newest bucket that may have been deleted under a narrower window of the store, in ms, or
	// NoStreamTime. It is kept by a packed record without ids.
	Floor(store string) int64
	// Apply merges changes, marker and position, all or nothing. It keeps no part of the batch but strings.
	Apply(b *Batch) error
	// Replay applies one committed record of the state topic, marker included; a nil value is a tombstone. Replaying any part of
	// the log again, in order and up to its end, gives the same contents. It keeps no part of key and value.
	Replay(key, value []byte) error
	// SetPosition sets the next offset to replay; control records and compacted gaps count.
	SetPosition(next int64)
	// Position returns the next offset to replay, 0 for a cold base.
	Position() int64
	// Marker returns the last marker; false when there is none. Its Next must not be changed.
	Marker() (Marker, bool)
	// Digest returns the digest of the live contents.
	Digest() uint64
	// Orphans counts the live keys of stores that the program does not declare, by the store's name; the caller owns the map. A
	// task must not run while there are any: CheckFingerprint refuses it.
	Orphans() map[string]int
	// Bytes estimates the memory in use.
	Bytes() int64
	// Size returns what Bytes counts of one store, and how many rows or ids it holds; ids that do not count any more and were not
	// deleted yet are among them.
	Size(store string) (keys, bytes int64)
	// Reset forgets everything.
	Reset() error
	// Close releases what the Base holds; it is not used afterwards.
	Close() error
}
