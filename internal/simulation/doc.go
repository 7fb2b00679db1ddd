// Package simulation puts whole processes of the ledger job under faults, on one machine and in fake time.
//
// A world is a testing/synctest bubble: an embedded broker of three nodes behind a virtual network, an upstream that feeds the
// input in transactions and aborts one in three, and two to four processes of the job, each with a state directory and a
// dialer of its own. A seed decides the workload and the faults: processes are killed at every step of the commit, frozen
// longer than their session, cut off, added and taken away; requests and answers are lost, late, or answered with errors
// after the broker acted; leaders and coordinators move; transaction markers are late. Then the faults end, the job must
// drain by itself, and the history that is left in the topics is judged by internal/verify and by the generator's own books.
//
// A second job, of a stage with two inputs, lives through the same: its judge (judgePairs) knows what each key's outputs must tell.
//
// Crash points are exhaustive instead: each request of a process in turn is cut off, answered in vain, or frozen.
// Mutants (internal/mutant) show that the judge is awake: under most of them one of the scenarios here must fail.
//
// All tests but one need the tag "synctests", without which the client's mutexes stop a bubble's clock:
//
//	go test -tags synctests ./internal/simulation
//
// SEEDS and SEED0 choose the seeds. A native seed is not replayed exactly, because goroutines are scheduled by the machine; a
// failure prints the command that repeats its seed until it fails again.
package simulation
