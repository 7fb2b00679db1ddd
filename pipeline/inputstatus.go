package pipeline

import "errors"

// InputStatus is one input's of an assigned task. Offsets are next offsets.
type InputStatus struct {
	Topic       string `json:"topic"`
	AppliedNext int64  `json:"applied_next"`
	EndNext     *int64 `json:"end_next"` // high watermark as last fetched, nil (null) unknown
}

// progress returns how far a task's inputs are committed.
func (o *ownedTask) progress() []InputStatus {
	inputs := make([]InputStatus, len(o.inputs))
	for i, in := range o.inputs {
		inputs[i] = InputStatus{Topic: in.Topic, AppliedNext: o.appliedNext(in)}
		if end := in.end; end >= 0 {
			inputs[i].EndNext = &end
		}
	}
	return inputs
}

// appliedNext is how far an input is applied. Of a task that stopped before it ran its restored state says so; the group's offset
// stands in for a state that was not read whole.
func (o *ownedTask) appliedNext(in ownedInput) int64 {
	if o.task != nil {
		return o.task.committedNext(in.Topic)
	}
	if o.lease != nil && errors.As(o.stopped, new(*ViolationError)) {
		if m, marked := o.lease.base.Marker(); marked {
			if next, known := m.NextOf(in.Topic); known {
				return next
			}
		}
	}
	return max(in.start, 0)
}

// sum adds the offsets up; one end that is unknown makes the sum unknown.
func sum(inputs []InputStatus) (applied int64, end *int64) {
	total, known := int64(0), len(inputs) > 0
	for _, in := range inputs {
		applied += in.AppliedNext
		if known = known && in.EndNext != nil; known {
			total += *in.EndNext
		}
	}
	if !known {
		return applied, nil
	}
	return applied, &total
}
