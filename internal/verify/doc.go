// Package verify is the judge behind `processor verify`: it reads the topics of a ledger job, and nothing else, and says
// whether the job kept its promise.
//
// Every input record has exactly one outcome (an update, a skipped note, a dead letter), and each outcome names the
// partition and offset of its input. So the check is a merge join per partition, in input order. For every input the
// package decides by itself what the outcome had to be, with decoders, money arithmetic, an inbox and a ledger of its own;
// the outcome's labels are compared with that decision and never believed. It shares no code with the processor: a fault
// in common code would hide itself.
//
// Where the job may say one of several true things (an event that is malformed twice, a debit that is refused for two
// reasons), any of them is accepted: the order of its checks is its own business, the decision is not.
//
// A partition is judged up to the applied marker in its state topic. On a live job that cut moves, so the order of reading
// matters: the stable committed offset, then the state up to its high watermark, whose last marker is the cut, then the
// outcomes up to theirs. Whatever the marker covers was produced before it was committed, hence lies below those ends.
//
// Raw mode reads each log a second time as it is: control records, aborted and open transactions too. What a committed record
// builds on must be committed (AbortedRead), a transaction is committed as a whole or not at all (Torn), and two readings of
// committed records show the same (Flicker).
//
// Verdicts are certain. Where the topics do not hold enough to judge (an open transaction that may still commit, a head
// that retention deleted), Run returns an error that says so and judges nothing there.
package verify
