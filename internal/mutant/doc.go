// Package mutant switches one named sabotage of the engine on, so that a test can show that it is caught.
//
// The switch exists only in a binary built with the tag "mutants". Elsewhere On is the constant false, the compiler drops
// the sabotaged branch, and no symbol of it is left (a test looks for one). In such a binary the variable TALLYSTICK_MUTANT of
// the environment names the mutant: each test of the tree, and the command itself, can so be run under any of them.
//
// sabotages (table_test.go) holds every mutant and the test that catches it; TestMutants runs them all, and docs/verification.md
// prints them.
package mutant
