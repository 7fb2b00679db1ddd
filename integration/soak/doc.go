// Package soak measures how long the ledger stands still after each kind of fault, on three brokers: how long until every
// partition is committed again, and how long read_committed readers of the output saw nothing new.
//
// A bound is asserted only where a time-out would end the standstill by itself, and only at half of that time-out: a slow
// machine passes, and a job that waits for the time-out does not. Three tests run with all others; the rest takes minutes and
// runs with make soak, which writes a summary.
package soak
