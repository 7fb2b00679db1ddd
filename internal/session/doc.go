// Package session keeps the contract with kgo.GroupTransactSession: assignment and its tokens, the task balancer, raw
// restore reads, the outcome of a commit, fencing, and the identity of an instance.
//
// It knows records, topics and offsets, not what a task's state means. Rules and their measured reasons are in
// docs/architecture.md; the source of each protocol step is named where it is taken.
package session
