// Package jobtest runs the ledger job for tests on a real Kafka: the command's own binary as processes that are killed, stopped
// and started again, a paced feed of its input, and its commits as a committed reader sees them.
package jobtest
