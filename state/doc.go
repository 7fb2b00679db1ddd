// Package state is what a task remembers: typed handles (Table, Dedupe) over a View, which is a record's savepoint over
// the overlay of the open transaction over a Base, the committed contents.
//
// The package is pure: it never sees Kafka, a clock, a file or another goroutine. It turns writes into the records of the
// state topic (View.Seal) and those records back into contents (Base.Replay), and it proves the second by the first: each
// transaction ends with the applied marker, which carries a digest of all live records.
//
// Invariants kept here, with engine-wide numbers:
//   - I2: the marker's transaction number grows by exactly one (View.Seal, Memory.Apply).
//   - I3: the digest that replay computes is the one that the marker carries (Memory.Apply checks it at each commit; who
//     restores compares Base.Digest with Base.Marker).
//   - I5: a marker's next offsets never go back (View.Seal).
//   - A record that fails leaves nothing behind: no write, no id, no stream time (View.Rollback).
//   - Physical deletion of old ids never changes a verdict: an id counts by stream time alone (Dedupe.Check).
//
// A View and its Base belong to one goroutine at a time. Formats are frozen; golden bytes are in testdata.
package state
