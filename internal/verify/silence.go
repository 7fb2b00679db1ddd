package verify

import (
	"context"
	"fmt"
	"time"
)

// emptyAnswers is how often nothing must come from below the end of a compacted partition before its tail counts as compacted away.
const emptyAnswers = 3

// silence is a row of answers that hold nothing, although the partition goes on. A broker gives them for what was compacted
// away, and as well when a remote or throttled read takes too long.
type silence struct {
	answers int
	began   time.Time
}

// believed takes one more such answer. Of a compacted topic a few are believed; any other holds what it held, so it is asked again
// for the time of patience.
func (s *silence) believed(ctx context.Context, k *kafka, topic string, partition int32, offset int64) (bool, error) {
	if s.answers++; s.answers == 1 {
		s.began = time.Now()
	}
	switch enough := s.answers >= emptyAnswers; {
	case enough && topic == k.compacted:
		return true, nil
	case enough && time.Since(s.began) >= k.patience:
		return false, &UndecidedError{partition, fmt.Sprintf("%s/%d shows nothing at offset %d, before its end, for %v: its brokers read too slowly, or its log is damaged; run verify again, with a longer --patience",
			topic, partition, offset, k.patience), true}
	case !pause(ctx, backoff):
		return false, ctx.Err()
	}
	return false, nil
}
