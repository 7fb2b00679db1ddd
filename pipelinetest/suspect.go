package pipelinetest

import "slices"

// What a handler that is not a function of its record, the stores and the record's time usually depends on.
const (
	suspectOrder = "the same was written in another order: does the handler range over a map? Sort its keys first"
	suspectClock = "look for time.Now (use the record's Time), math/rand or a fresh UUID (derive it from the record), a value that a map's order decides, an answer from the network, and variables outside the stores that the handler changes (a counter, a cache)"
)

// suspect says where to look when the same input gave something else.
func suspect(permuted bool) string {
	if permuted {
		return suspectOrder
	}
	return suspectClock
}

// permuted reports whether two lists hold the same in another order.
func permuted(a, b []string) bool {
	if slices.Equal(a, b) {
		return false
	}
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}
