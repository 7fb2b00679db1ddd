package main

import (
	"reflect"
	"testing"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/pipelinetest"
)

func TestBothStylesDoTheSame(t *testing.T) {
	var got [2][]pipeline.Record[string, Total]
	for i, p := range []*pipeline.Pipeline{totalPerCustomer("shop"), totalInWords("shop")} {
		d := pipelinetest.New(t, p, 4)
		for _, o := range []Order{{"o-1", "kettle", 40_00}, {"o-1", "kettle", 40_00}, {"o-2", "spoon", 0}, {"o-3", "teapot", 2_00}} {
			pipelinetest.Send(d, orders, "priya", o)
			pipelinetest.Send(d, orders, "ravi", Order{o.ID + "-r", o.Item, 1_00})
		}
		got[i] = pipelinetest.Read(d, totals)
	}
	if len(got[0]) != 5 || !reflect.DeepEqual(got[0], got[1]) {
		t.Errorf("handler %+v\noperators %+v", got[0], got[1])
	}
}
