package main

import (
	"testing"

	"github.com/tallystick/tallystick/pipelinetest"
)

func TestAnOrderIsCountedOnce(t *testing.T) {
	d := pipelinetest.New(t, totalPerCustomer("shop"), 4)
	pipelinetest.Send(d, orders, "priya", Order{"o-1", "kettle", 40_00})
	d.Restart() // all state comes back from its topic, as after a crash
	d.Abort(1)  // the next transaction is run twice and must write the same
	pipelinetest.Send(d, orders, "priya", Order{"o-2", "teapot", 2_00})
	pipelinetest.Send(d, orders, "priya", Order{"o-2", "teapot", 2_00})
	pipelinetest.Send(d, orders, "priya", Order{"o-3", "spoon", -1})

	got := pipelinetest.Read(d, totals)
	if len(got) != 2 || got[1].Value != (Total{2, 42_00}) {
		t.Errorf("totals %+v", got)
	}
	if dead := pipelinetest.ReadRaw(d, "shop-dead-letters"); len(dead) != 1 {
		t.Errorf("dead letters %+v", dead)
	}
}
