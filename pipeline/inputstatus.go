package pipeline

// InputStatus is one input's of an assigned task. Offsets are next offsets.
type InputStatus struct {
	Topic       string `json:"topic"`
	AppliedNext int64  `json:"applied_next"`
	EndNext     int64  `json:"end_next"` // high watermark as last fetched, -1 unknown
}

// progress returns how far a task's inputs are committed.
func (o *ownedTask) progress() []InputStatus {
	inputs := make([]InputStatus, len(o.inputs))
	for i, in := range o.inputs {
		inputs[i] = InputStatus{in.Topic, o.task.committedNext(in.Topic), in.end}
	}
	return inputs
}

func sum(inputs []InputStatus) (applied, end int64) {
	for _, in := range inputs {
		applied += in.AppliedNext
		if in.EndNext < 0 || end < 0 {
			end = -1
		} else {
			end += in.EndNext
		}
	}
	return applied, end
}
