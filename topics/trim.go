package topics

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Trim deletes the records of a topic that lie below an offset, partition by partition (DeleteRecords). What is deleted never
// comes back: name only offsets that are proven committed. It blocks until the brokers answered or ctx ends. The error joins the
// partitions that were not trimmed, each with cause and remedy; the others are.
func (a *Admin) Trim(ctx context.Context, topic string, before map[int32]int64) error {
	var offsets kadm.Offsets
	for p, next := range before {
		offsets.AddOffset(topic, p, next, -1)
	}
	done, err := kadm.NewClient(a.client).DeleteRecords(ctx, offsets)
	if err != nil {
		return fmt.Errorf("trim topic %s: %w; %s", topic, err, trimRemedy(err))
	}
	var errs []error
	for _, p := range slices.Sorted(maps.Keys(before)) {
		answer, ok := done.Lookup(topic, p)
		err := answer.Err
		if !ok {
			err = errors.New("the brokers did not answer")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("trim %s/%d before offset %d: %w; %s", topic, p, before[p], err, trimRemedy(err)))
		}
	}
	return errors.Join(errs...)
}

func trimRemedy(err error) string {
	switch {
	case errors.As(err, new(*kadm.AuthError)), errors.Is(err, kerr.TopicAuthorizationFailed):
		return "grant DELETE on the topic"
	case errors.Is(err, kerr.PolicyViolation):
		return "its cleanup.policy must be delete"
	}
	return "it is tried again"
}
