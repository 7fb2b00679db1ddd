// Package inputs runs a stage with two inputs on Apache Kafka while its processes are killed, added and taken away, and lets
// the outputs of each key tell whether every record of either input had its effect once.
//
// The processes are the test binary, started again. What is late there and not on the embedded broker is what counts: the
// markers of transactions, and a group that balances real members.
package inputs
