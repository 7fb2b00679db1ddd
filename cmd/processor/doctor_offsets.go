package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// checkOffsets finds where a task stops, whoever runs it: an offset that the job did not commit, and input that is gone.
func checkOffsets(ctx context.Context, cfg Config, client *kgo.Client) []finding {
	rows, err := readLag(ctx, client, cfg)
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.GroupAuthorizationFailed):
		return nil // topics and rights say it
	case err != nil:
		return []finding{failedLook("offsets", cfg.ApplicationID, err)}
	}
	var found []finding
	for _, r := range rows {
		if f := offsetFinding(r); f.Result != isOK {
			found = append(found, f)
		}
	}
	if len(found) == 0 {
		found = append(found, finding{Check: "offsets", On: cfg.ApplicationID, Result: isOK, Said: "every committed offset is the job's own, and its input is there"})
	}
	return found
}

func offsetFinding(r lagRow) finding {
	f := finding{Check: "offsets", On: fmt.Sprintf("%s/%d", r.Topic, r.Partition), Result: isFail}
	const cost = "processor reset plan says what starting over costs"
	switch {
	case r.State == lagLost:
		f.Said, f.Remedy = fmt.Sprintf("retention deleted %s that were never processed: task %s stops there (I4)", counted(int(r.Lost), "offset"), r.Task), "processor reset plan --skip-lost says what going on without them means"
	case r.State == lagAhead:
		f.Said, f.Remedy = fmt.Sprintf("it ends at offset %d, before the committed one, %d: it lost records or was made anew, and task %s stops there", *r.End, *r.Committed, r.Task), cost
	case r.State == lagUnknown:
		f.Result, f.Said = isWarn, "not known: "+r.Unknown
	case r.SetBy == halfDoneReset:
		f.Said, f.Remedy = "a reset was begun and not finished: task "+r.Task+" stops there (I2)", "run the same processor reset apply again"
	case r.SetBy != "":
		f.Said = fmt.Sprintf("the job did not commit offset %d: task %s stops there (I1, I2)", *r.Committed, r.Task)
		f.Remedy = "stop the processors and run processor reset apply --to-marker"
	default:
		f.Result = isOK
	}
	return f
}
