// Command bench compares the ledger job with what a team would write by hand, on one broker, in one run; see README.md.
//
// Every run is checked: a run whose outputs are not exactly those of the unique events does not count.
package main
