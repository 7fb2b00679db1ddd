// Package lint holds the rules of this tree that a compiler does not know, as Go tests over its syntax: which package may
// import which and why (floors), what is long enough to want a reason (tripwires), what a test must not do (habits), what
// must be documented, and whether docs/eos-boundaries.md and the tests still name each other (guarantees).
//
// Every rule is a function from the parsed tree to a list of problems, and each has a test that gives it a small tree in
// which it must find one. The rules read all files whatever their build tags, of both Go modules.
package lint
