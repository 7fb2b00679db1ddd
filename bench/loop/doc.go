// Command loop is what a team that knows franz-go writes instead of using an engine: the ledger's postings as one loop over a
// GroupTransactSession, tuned. It is the measure that this project's job is held against.
//
// Per event it does what Kafka Streams would: it looks the id up, posts to the balance and writes three records, the update
// and one changelog record for each of its two stores. What it lacks is what an engine adds: proofs of its state, conflicts,
// rules, dead letters, a drain that is bounded, a status.
package main
