package main

import (
	"fmt"
	"testing"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/pipelinetest"
)

func TestTotalsSurviveEveryCrashPoint(t *testing.T) {
	var in pipelinetest.Inputs
	for i := range 20 {
		order := Order{fmt.Sprint("o-", i), "kettle", 40_00}
		pipelinetest.Put(&in, orders, fmt.Sprint("customer-", i%3), order)
		pipelinetest.Put(&in, orders, fmt.Sprint("customer-", i%3), order)
	}
	pipelinetest.Crash(t, func() *pipeline.Pipeline { return totalPerCustomer("shop") }, &in, pipelinetest.CrashConfig{})
}
