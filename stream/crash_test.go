package stream_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/pipelinetest"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/topics"
)

// TestACountBehindARepartitionSurvivesEveryCrashPoint runs the first Example on the embedded broker, a process of it killed at each
// point of the commit protocol.
func TestACountBehindARepartitionSurvivesEveryCrashPoint(t *testing.T) {
	var clicked pipelinetest.Inputs
	for i := range 40 {
		pipelinetest.Put(&clicked, clicks, fmt.Sprint("user-", i%7), Click{fmt.Sprint("/page-", i%5)})
	}
	pipelinetest.Put(&clicked, clicks, "user-1", Click{}) // filtered
	pipelinetest.Crash(t, func() *pipeline.Pipeline { return hitsPerPage("web") }, &clicked, pipelinetest.CrashConfig{Partitions: 3})
}

// TestAJoinSurvivesEveryCrashPoint runs the second Example: changes of rows, tombstones and lookups, in the order of their times, with
// dead letters for those that find nothing.
func TestAJoinSurvivesEveryCrashPoint(t *testing.T) {
	var shop pipelinetest.Inputs
	gone := topics.New(customers.Name, record.String, record.Nullable(record.JSON[Customer]()))
	for i := range 40 {
		name := fmt.Sprint("customer-", i%6)
		switch {
		case i%9 == 8:
			pipelinetest.Put(&shop, gone, name, record.Optional[Customer]{})
		case i%3 == 0:
			pipelinetest.Put(&shop, customers, name, Customer{fmt.Sprint("city-", i)})
		default:
			pipelinetest.Put(&shop, orders, name, Order{fmt.Sprint("item-", i)})
		}
		shop.Advance(time.Second)
	}
	pipelinetest.Crash(t, func() *pipeline.Pipeline { return shipping("shop") }, &shop, pipelinetest.CrashConfig{})
}
