// Package unknown tests the ledger on Apache Kafka where the end of a transaction is in doubt: what the client reports of it is not
// what became of it, or the offsets of a commit can be read before its state can.
//
// The processes are the test binary, started again. For a mutant of the engine it is compiled with the tag mutants: nothing but these
// tests can switch one on.
package unknown
