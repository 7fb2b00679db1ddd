package results

// Kinds are the names of all kinds of fault that are in the campaign's bag.
func Kinds() []string {
	return []string{
		"kill", "kill-twice", "kill-all", "kill-take-over", "kill-fence", "stop-short", "stop-session", longKind, "restart", "scale-1-4-1", "rebalance-storm", "twin",
		"state-folder-lost",
		"commit-answer-lost", "commit-request-lost", "commit-answers-hang", "commit-requests-hang", "commit-late", "commit-too-late", "commit-false-error", "offsets-answer-lost",
		"produce-lost", "heartbeats-lost", "kill-at-step", "net-cut", "net-down", "net-requests-stop", "net-answers-stop", "net-silent", "net-slow",
		"broker-kill", "state-leader-kill", "group-coordinator-kill", "transaction-coordinator-kill", "broker-stop", "broker-restart", "rolling-restart", "leaders-move",
		"poison", "oversized", "two-hours-ahead", "repeats", "other-contents", "open-commits", "open-aborts", "open-hangs",
		"member-removed", "producer-fenced", "group-gone",
	}
}
