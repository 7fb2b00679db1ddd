// Package generate makes a workload for the ledger from a seed: raw records as a careless upstream would send them, each with
// the outcome that a correct ledger gives it. The same configuration gives the same records, byte for byte.
//
// It keeps balances of its own, in big integers, and shares no decision with package ledger: a test that compares the two
// compares two opinions. Its classes hold for a ledger that starts empty, opens unknown accounts by the first credit, and
// handles the records of each key in order; the order between keys, and so the number of partitions, does not matter.
//
// Every malformed input that fits in a few kilobytes occurs, in turn. Not among them are values above a topic's size limit
// and bad record timestamps: a record's time is the sender's.
package generate
