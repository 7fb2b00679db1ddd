// Package mutant switches one named sabotage of the engine on, so that a test can show that it is caught.
//
// The switch exists only in a binary built with the tag "mutants". Elsewhere On is the constant false, the compiler drops
// the sabotaged branch, and no symbol of it is left (a test looks for one). Names are those of docs/eos-boundaries.md.
package mutant
