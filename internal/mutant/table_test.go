package mutant

// sabotage is a mutant of the engine and the test that catches it: one that passes without the mutant and, on the same seed,
// fails with it.
type sabotage struct {
	mutant  string
	does    string // what the engine does wrong then
	catcher catcher
	bound   bool // nothing goes wrong but time: only a bound catches it
}

// catcher is a test and the words, any of them, that count as its verdict. A failure without such a word is no verdict: it could
// be the mutant's own crash.
type catcher struct {
	dir, test string
	verdicts  []string
	story     bool // the verdicts are marks of a story: of the checker, or invariants that the engine itself reported
}

// story is a scenario of internal/simulation.
func story(name string, marks ...string) catcher {
	return catcher{"internal/simulation", "TestScenarios/" + name, marks, true}
}

// claim is a test of another package.
func claim(dir, test string, says ...string) catcher {
	return catcher{dir, test, says, false}
}

// sabotages are all mutants of the engine.
func sabotages() []sabotage { return append(planned(), further()...) }

// planned are the mutants that were asked for before there were tests.
func planned() []sabotage {
	return []sabotage{
		{mutant: "offsets-outside-transaction", does: "commits the offsets ahead of the transaction",
			catcher: story("killed-before-the-end", "I1", "I2", "lost", "offset", "aborted-read", "torn")},
		{mutant: "client-offsets", does: "commits the client's offsets, behind what was polled and not processed",
			catcher: story("refused-then-restart", "I1", "lost", "offset", "aborted-read", "torn")},
		{mutant: "check-before-flush", does: "looks at the produce errors before the flush",
			catcher: story("output-refused", "lost", "chain", "I5", "aborted-read", "torn")},
		{mutant: "restore-to-last-stable-offset", does: "ends a restore at the last stable offset",
			catcher: story("late-marker", "I1", "chain", "state", "aborted-read", "torn")},
		{mutant: "last-stable-offset-believed", does: "ends a restore at the last stable offset and takes what it found for the state of the group's offsets",
			catcher: story("late-marker", "chain", "state", "duplicate", "lost", "aborted-read", "torn")},
		{mutant: "merge-before-commit", does: "merges the overlay before the commit is proven",
			catcher: story("output-refused", "I5", "I1", "chain", "lost", "aborted-read", "torn")},
		{mutant: "no-verification-after-false-nil", does: "takes a commit without an outcome for an abort",
			catcher: story("applied-but-unknown", "duplicate", "state", "I1", "I2", "aborted-read", "torn")},
		{mutant: "commit-for-dead-token", does: "commits for a task that was lost",
			catcher: story("dead-token", "dead token")},
		{mutant: "split-task", does: "gives a task's inputs to two members",
			catcher: story("task-moves", "I2", "I1", "chain", "duplicate", "lost", "state")},
		{mutant: "purge-above-committed", does: "trims a repartition topic before the commit",
			catcher: story("hop-killed-while-it-purges", "I4")},
		{mutant: "timer-outside-savepoint", does: "keeps what a timer wrote when its record fails",
			catcher: story("hop-restart", "timer")},
		{mutant: "foreign-handle", does: "takes the handle of another stage's store for an index",
			catcher: story("foreign-handle", "foreign")},
		{mutant: "dedupe-not-rolled-back", does: "remembers the id of a record that failed",
			catcher: story("failed-record", "rolled back")},
		{mutant: "stream-time-not-restored", does: "forgets stream time at a restore",
			catcher: story("old-record-after-restart", "ghost", "lost", "state", "duplicate", "aborted-read", "torn")},
		{mutant: "digest-without-old-value", does: "leaves a key's old value in the digest",
			catcher: story("restart", "I3", "state")},
		{mutant: "delta-instead-of-absolute", does: "writes changes to the state topic instead of values",
			catcher: story("restart", "I3", "state")},

		{mutant: "no-transaction", does: "writes with a plain producer",
			catcher: story("killed-before-the-end", "I1", "I2", "duplicate", "aborted-read", "torn")},
		{mutant: "skip-rollback-on-abort", does: "keeps the overlay of an aborted transaction",
			catcher: story("output-refused", "I5", "chain", "duplicate", "aborted-read", "torn")},
		{mutant: "position-by-record-offsets", does: "counts records alone as the restore's position, so that a log ending in a marker never ends", bound: true,
			catcher: claim("internal/session", "TestRestoreReadsCommittedRecordsToTheEndOfTheLog", "deadline exceeded")},
		{mutant: "ignore-failed-promise", does: "forgets that a record was not written",
			catcher: story("output-refused", "lost", "chain", "I5", "aborted-read", "torn")},
		{mutant: "keep-lost-tasks", does: "keeps the right to a task that the group took away",
			catcher: claim("internal/session", "TestRevokeKillsTheTokensOfWhatWasTakenAndNoOther", "want the kept one alone")},
		{mutant: "no-fence-at-start", does: "reads offsets before InitProducerID has ended what the last incarnation left", bound: true,
			catcher: story("restarted-in-time", "late")},
		{mutant: "read-uncommitted", does: "reads its input uncommitted",
			catcher: story("restart", "ghost", "lost", "duplicate", "aborted-read", "torn")},
		{mutant: "marker-not-written", does: "writes state without its marker",
			catcher: story("restart", "I1", "I2", "state")},
		{mutant: "state-to-another-partition", does: "lets the key place a state record",
			catcher: story("restart", "I1", "I2", "I3", "state")},
		{mutant: "dead-letter-outside-transaction", does: "writes dead letters with a plain producer",
			catcher: story("dead-letters-killed-before-the-end", "duplicate", "aborted-read", "torn")},
		{mutant: "cancelled-handler-succeeds", does: "takes a handler that was cancelled for one that succeeded",
			catcher: claim("pipeline", "TestCancelledHandlerIsUndone", "a cancelled handler counts as success")},
		{mutant: "failed-look-up-is-empty", does: "takes an end offset that could not be read for an empty log",
			catcher: story("look-up-fails", "I1", "state")},
		{mutant: "interrupted-restore-is-complete", does: "takes an interrupted restore for a complete one",
			catcher: claim("internal/session", "TestInterruptedRestoreGoesOnWhereItStopped", "an interrupted restore counts as complete")},
		{mutant: "verification-by-all-partitions", does: "asks for all committed offsets instead of naming the partitions",
			catcher: claim("internal/session", "TestFirstCommitThatIsPendingIsWaitedFor", "all of the input would be applied twice")},
		{mutant: "event-time-on-state", does: "stamps state with the time of events",
			catcher: claim("pipeline", "TestStateIsStampedWithTheTimeOfWriting", "with the time of an event")},
		{mutant: "close-without-allowing-rebalance", does: "closes the client with Close instead of CloseAllowingRebalance", bound: true,
			catcher: claim("internal/session", "TestCloseWaitsForNoAllowance", "the close hangs")},
		{mutant: "state-without-offset", does: "writes a task's state without its offset",
			catcher: story("restart", "I1", "I2", "offset")},
	}
}
