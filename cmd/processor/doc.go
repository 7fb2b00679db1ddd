// Command processor runs and operates the ledger job: credit-events in, ledger-updates out, exactly once.
//
// It is the only place that speaks to people: flags, environment and file become a Config here, signals become a
// context, and errors become one message on stderr, a hint and an exit code. Everything it starts is a library of its own.
//
// stdout is data (see -o), stderr is logs and progress. Exit codes: 0 ok, 1 failed, 2 usage or changes pending, 3 a check
// failed, 4 not found, 5 unavailable, 130 interrupted.
package main
