package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// PartitionCounts asks the brokers how many partitions topics have now, whatever the client has cached. One topic that cannot
// be counted is an error.
func PartitionCounts(ctx context.Context, client *kgo.Client, topics ...string) (map[string]int32, error) {
	found, err := kadm.NewClient(client).Metadata(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("partitions of %v: %w", topics, err)
	}
	counts := map[string]int32{}
	for _, topic := range topics {
		detail, ok := found.Topics[topic]
		if !ok || detail.Err != nil {
			return nil, fmt.Errorf("partitions of topic %q: %w", topic, errors.Join(detail.Err, errAbsent(ok)))
		}
		counts[topic] = int32(len(detail.Partitions))
	}
	return counts, nil
}

func errAbsent(there bool) error {
	if there {
		return nil
	}
	return errors.New("the broker left it out of its answer")
}
