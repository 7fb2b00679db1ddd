package pipelinetest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/internal/faultnet"
)

// A point is where a process is struck: at its n-th request of a kind, and how.
type point struct {
	key  kmsg.Key
	n    int
	mode *mode
}

// mode is what happens at a point.
type mode struct {
	text  string // with a %s for the request
	deed  faultnet.Deed
	code  int16 // of faultnet.AnswerError
	fate  fate
	steps []kmsg.Key // where it is of interest
	most  int        // points of each step; 0 = maxPerStep
}

// fate is what becomes of the process that is struck.
type fate uint8

const (
	lives         fate = iota
	restarts           // dies, and the next incarnation has its name
	taken              // dies, and another instance takes its tasks over
	frozen             // stands still, another instance takes its tasks over, and it goes on
	restartsTwice      // its successor, which restores what a lost commit left, is what is struck; then restarts
)

// The steps of the commit protocol, and those before it, by the requests that the worker sends. One that the client does not
// send in this protocol version (AddPartitionsToTxn and AddOffsetsToTxn, since KIP-890) is never counted and never struck.
var (
	commitSteps = []kmsg.Key{kmsg.Produce, kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.EndTxn}
	startSteps  = []kmsg.Key{kmsg.InitProducerID, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.OffsetFetch, kmsg.ListOffsets, kmsg.Fetch}
	endSteps    = []kmsg.Key{kmsg.TxnOffsetCommit, kmsg.EndTxn}
)

// modes are all modes. What is cheap strikes everywhere, what waits for a session to end strikes where it can hurt.
func modes() []*mode {
	restoring := append(slices.Clone(startSteps[3:]), endSteps...)
	return []*mode{
		{"the process is killed before its %s is sent, and restarted", faultnet.DropRequest, 0, restarts, commitSteps, 0},
		{"the process is killed when the broker has acted on its %s, and restarted", faultnet.DropResponse, 0, restarts, commitSteps, 0},
		{"the process is killed before its %s is sent, and restarted", faultnet.DropRequest, 0, restarts, startSteps, 2},
		{"the process is killed when the broker has acted on its %s, and restarted", faultnet.DropResponse, 0, restarts, startSteps, 2},
		{"the connection is cut before the %s is sent", faultnet.DropRequest, 0, lives, commitSteps, 2},
		{"the answer to the %s is lost", faultnet.DropResponse, 0, lives, commitSteps, 2},
		{"the broker refuses the %s once, so that the transaction aborts", faultnet.AnswerError, kerr.MessageTooLarge.Code, lives, []kmsg.Key{kmsg.Produce}, 0},
		{"the %s is applied, and answered with an unknown error", faultnet.AnswerError, kerr.UnknownServerError.Code, lives, []kmsg.Key{kmsg.EndTxn}, 0},
		{"the process is killed and restarted, and then its %s arrives, late", faultnet.DelayRequest, 0, restarts, commitSteps, 2},
		{"the process is killed and restarted after a commit whose answer was lost, and killed again when the broker has acted on its %s", faultnet.DropResponse, 0, restartsTwice, restoring, 1},
		{"the process is killed before its %s is sent, and taken over by another instance", faultnet.DropRequest, 0, taken, endSteps, 1},
		{"the process is killed when the broker has acted on its %s, and taken over by another instance", faultnet.DropResponse, 0, taken, endSteps, 1},
		{"the process stands still before its %s is sent, is taken over by another instance, and goes on", faultnet.Pass, 0, frozen, endSteps, 1},
	}
}

// points lists the points of a run in which a process sent so many requests of each kind. Those that take longest come first.
func points(sent map[kmsg.Key]int, rng *rand.Rand) (all []point) {
	for _, m := range slices.Backward(modes()) {
		for _, key := range m.steps {
			for _, n := range m.choose(sent[key], rng) {
				all = append(all, point{key, n, m})
			}
		}
	}
	return all
}

// maxPerStep bounds the points of one step and mode: what the hundredth commit does, the sixth did.
const maxPerStep = 6

// choose returns which of n requests are struck: the first, and one of each equal part of the rest.
func (m *mode) choose(n int, rng *rand.Rand) (chosen []int) {
	most := m.most
	if most == 0 {
		most = maxPerStep
	}
	switch {
	case n <= most:
		most = n
	case most == 1 && m.fate != restartsTwice: // the first commit only fixes where a task starts
		return []int{2 + rng.IntN(n-1)}
	}
	for i := range most {
		low, high := 1, 2
		if i > 0 {
			low, high = 2+(i-1)*(n-1)/(most-1), 2+i*(n-1)/(most-1)
		}
		chosen = append(chosen, low+rng.IntN(high-low))
	}
	return chosen
}

// lostCommit is the second commit (the first one only fixes where a task starts), which the process that sent it never hears of.
func lostCommit() *point {
	return &point{kmsg.EndTxn, 2, &mode{deed: faultnet.DropResponse, fate: restartsTwice}}
}

func (p point) String() string {
	return fmt.Sprintf(p.mode.text, fmt.Sprintf("%s no. %d", step(p.key), p.n))
}

// step names a request by its place in the protocol.
func step(key kmsg.Key) string {
	switch key {
	case kmsg.InitProducerID:
		return "InitProducerId (the fence)"
	case kmsg.OffsetFetch:
		return "OffsetFetch (the restore begins)"
	case kmsg.ListOffsets:
		return "ListOffsets (the restore's target)"
	case kmsg.Fetch:
		return "Fetch (state or input)"
	case kmsg.Produce:
		return "Produce (outputs, state, marker)"
	case kmsg.TxnOffsetCommit:
		return "TxnOffsetCommit (the offsets)"
	case kmsg.EndTxn:
		return "EndTxn (the commit)"
	}
	return key.Name()
}
