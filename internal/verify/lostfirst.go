package verify

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// excused reports whether a repetition was judged by an event whose own outcome is lost: the job knew the event, and the loss
// is reported where it is. The model remembers the event from here on.
func (a *audit) excused(ctx context.Context, in *kgo.Record, x *expected, o *outcome) (bool, error) {
	repeats := o.lane == skipped || o.lane == letters && o.letter.known && o.letter.reason == conflict
	_, lost := a.missing[o.first.offset]
	if !repeats || !lost || x.lane != updates || x.ruling != isNew || o.first.topic != a.topics.Input || o.first.partition != a.p {
		return false, nil
	}
	first, err := a.h.lookup(ctx, a.topics.Input, a.p, o.first.offset)
	if err != nil || first == nil {
		return false, err
	}
	var reader eventReader
	e, bad := reader.read(first)
	if bad != 0 || a.hash.identity(&e) != x.id {
		return false, nil
	}
	content := a.hash.content(&e)
	if same := content == x.content; same != (o.lane == skipped) {
		return false, nil
	}
	a.inbox.remember(x.id, content, first.Offset, first.Timestamp.UnixMilli(), false)
	x.ruling, x.first = a.inbox.rule(x.id, x.content, in.Timestamp.UnixMilli())
	if a.inbox.ids.err != nil {
		return false, a.inbox.ids.err
	}
	if x.lane, x.why = skipped, 0; x.ruling == isConflict {
		x.lane, x.why = letters, set(conflict)
	}
	return x.ruling != isNew, nil
}
