package stream_test

import (
	"testing"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/stream"
)

// What Kafka Streams 4.4.0 prints for the same topologies, byte for byte.
const (
	kafkaStreamsJoin = `Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000002 (topics: [orders])
      --> KSTREAM-LEFTJOIN-0000000003
    Processor: KSTREAM-LEFTJOIN-0000000003 (stores: [customers])
      --> KSTREAM-SINK-0000000004
      <-- KSTREAM-SOURCE-0000000002
    Source: KSTREAM-SOURCE-0000000000 (topics: [customers])
      --> KTABLE-SOURCE-0000000001
    Sink: KSTREAM-SINK-0000000004 (topic: shipments)
      <-- KSTREAM-LEFTJOIN-0000000003
    Processor: KTABLE-SOURCE-0000000001 (stores: [customers])
      --> none
      <-- KSTREAM-SOURCE-0000000000

`
	kafkaStreamsMerge = `Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [in])
      --> KSTREAM-FILTER-0000000002, KSTREAM-MAPVALUES-0000000001
    Processor: KSTREAM-FILTER-0000000002 (stores: [])
      --> KSTREAM-MERGE-0000000003
      <-- KSTREAM-SOURCE-0000000000
    Processor: KSTREAM-MAPVALUES-0000000001 (stores: [])
      --> KSTREAM-MERGE-0000000003
      <-- KSTREAM-SOURCE-0000000000
    Processor: KSTREAM-MERGE-0000000003 (stores: [])
      --> KSTREAM-PEEK-0000000004
      <-- KSTREAM-FILTER-0000000002, KSTREAM-MAPVALUES-0000000001
    Processor: KSTREAM-PEEK-0000000004 (stores: [])
      --> KSTREAM-SINK-0000000005
      <-- KSTREAM-MERGE-0000000003
    Sink: KSTREAM-SINK-0000000005 (topic: out)
      <-- KSTREAM-PEEK-0000000004

`
)

func TestDescribePrintsWhatKafkaStreamsPrints(t *testing.T) {
	merge := oneStage(func(s str) {
		mapped := stream.MapValues(s, add(0))
		s.Filter(odd).Merge(mapped).Peek(func(rec) {}).To(out)
	})
	for want, p := range map[string]*pipeline.Pipeline{kafkaStreamsJoin: shipping("shop"), kafkaStreamsMerge: merge} {
		if got := p.Describe(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

// TestDescribeOfARepartitionShowsBothStages has the names of steps as Kafka Streams counts them, and topics as they are in the
// cluster.
func TestDescribeOfARepartitionShowsBothStages(t *testing.T) {
	const want = `Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [clicks])
      --> KSTREAM-FILTER-0000000001
    Processor: KSTREAM-FILTER-0000000001 (stores: [])
      --> KSTREAM-KEY-SELECT-0000000002
      <-- KSTREAM-SOURCE-0000000000
    Processor: KSTREAM-KEY-SELECT-0000000002 (stores: [])
      --> KSTREAM-SINK-0000000003
      <-- KSTREAM-FILTER-0000000001
    Sink: KSTREAM-SINK-0000000003 (topic: web-by-page-repartition)
      <-- KSTREAM-KEY-SELECT-0000000002

  Sub-topology: 1
    Source: KSTREAM-SOURCE-0000000004 (topics: [web-by-page-repartition])
      --> KSTREAM-AGGREGATE-0000000005
    Processor: KSTREAM-AGGREGATE-0000000005 (stores: [hits])
      --> KSTREAM-SINK-0000000006
      <-- KSTREAM-SOURCE-0000000004
    Sink: KSTREAM-SINK-0000000006 (topic: hits)
      <-- KSTREAM-AGGREGATE-0000000005

`
	if got := hitsPerPage("web").Describe(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
