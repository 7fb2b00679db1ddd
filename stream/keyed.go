package stream

import "github.com/tallystick/tallystick/record"

// keyed reports whether an operator may keep state by the stream's key, and refuses it by name if not.
func (o *origin[K]) keyed(operator, store string) bool {
	switch {
	case o.rekeyed != "":
		o.refuse("%s %q follows %s, which made new keys: the records are still where their old keys belong, and several tasks would keep a row of one key; call GroupBy before %s, which sends them to a stage of the new keys",
			operator, store, o.rekeyed, operator)
		return false
	case o.key == nil: // refused where it began, or merged of two encodings
		o.refuse("%s %q: the stream of %s has no one codec for its keys: begin it with a topic made by topics.New, and merge only streams whose keys are encoded alike", operator, store, o.at)
		return false
	}
	return true
}

// sameCodec returns the codec of two merged streams, nil if they encode keys differently.
func sameCodec[K any](a, b record.Codec[K]) record.Codec[K] {
	if a == nil || b == nil || a.ID() != b.ID() {
		return nil
	}
	return a
}
