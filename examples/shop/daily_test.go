package main

import (
	"testing"
	"time"

	"github.com/tallystick/tallystick/pipelinetest"
)

func TestADayIsSentWhenTheNextOneBegins(t *testing.T) {
	d := pipelinetest.New(t, totalPerDay("shop"), 1)
	pipelinetest.Send(d, orders, "priya", Order{"o-1", "kettle", 40_00})
	d.Advance(23 * time.Hour)
	pipelinetest.Send(d, orders, "priya", Order{"o-2", "teapot", 2_00})
	if early := pipelinetest.Read(d, days); len(early) != 0 {
		t.Errorf("sent before midnight: %+v", early)
	}
	d.Advance(time.Hour)
	pipelinetest.Send(d, orders, "ravi", Order{"o-3", "spoon", 1_00})
	got := pipelinetest.Read(d, days)
	if len(got) != 1 || got[0].Key != "priya" || got[0].Value != (Total{2, 42_00}) {
		t.Errorf("days %+v", got)
	}
}
