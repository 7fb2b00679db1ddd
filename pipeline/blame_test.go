package pipeline

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/session"
)

// A state record, and what a timer sent, is no input's fault: the task is counted, and no input is held back for it.
func TestRefusedStateRecordBlamesNoInput(t *testing.T) {
	l := pairedLoop(t)
	o := l.tasks[1]
	own, sent := l.txn.add(o, inputOffset{place: stateRecord}), l.txn.add(o, inputOffset{1, 7})
	*own, *sent = kgo.Record{Topic: "app-s-state"}, kgo.Record{Topic: "out"}
	l.blame([]session.Failure{{Record: own, Err: errors.New("too large")}})
	if len(o.lease.refused) != 0 || o.refusals != 1 {
		t.Errorf("blamed %v, %d refusals", o.lease.refused, o.refusals)
	}
	l.blame([]session.Failure{{Record: sent, Err: errors.New("too large")}, {Record: sent, Err: errors.New("too large")}})
	if r := o.lease.refused[inputOffset{1, 7}]; len(o.lease.refused) != 1 || r == nil || r.times != 1 || o.refusals != 2 {
		t.Errorf("blamed %v, %d refusals: want the input once, and the task once more", o.lease.refused, o.refusals)
	}
	l.txn.reset(l.p.now())
}
