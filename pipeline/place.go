package pipeline

import (
	"fmt"

	"github.com/tallystick/tallystick/internal/mutant"
)

// The first placementSample records of a partition tell whether the partitioner is misnamed rather than a producer wrong: when
// all of them are misplaced, or so many that another partitioner explains every one of the sample. Some of them sit on the
// right partition by chance, one of as many as there are partitions.
const (
	placementSample = 100
	misplacedMany   = 10
)

var partitioners = [...]Partitioner{Murmur2, CRC32, FNV1a}

// placement is what the sample of an input says so far.
type placement struct {
	seen, misplaced int
	unfit           [len(partitioners)]bool // would have placed one of them elsewhere
}

// checkPlace refuses a record whose key belongs to another partition: its state is there.
func (t *Task) checkPlace(in *Input) error {
	want := t.stage.partitioner.Partition(in.Key, t.partitions)
	if p := &t.inputs[t.current].placement; p.seen < placementSample {
		if err := t.sample(p, in, want != t.partition); err != nil {
			return err
		}
	}
	if want == t.partition || mutant.On("wrong-partition-accepted") {
		return nil
	}
	return DeadLetter("wrong_partition", fmt.Errorf("key %q belongs to partition %d of %d by %s: produce it with that partitioner", cut(string(in.Key), 80), want, t.partitions, t.stage.partitioner))
}

// sample adds a record to the sample, and judges the sample when it is complete.
func (t *Task) sample(p *placement, in *Input, misplaced bool) error {
	p.seen++
	if misplaced {
		p.misplaced++
	}
	for i, other := range partitioners {
		p.unfit[i] = p.unfit[i] || other.Partition(in.Key, t.partitions) != t.partition
	}
	match := p.match()
	if p.seen < placementSample || p.misplaced < placementSample && (p.misplaced < misplacedMany || match == "") {
		return nil
	}
	return &misplacedError{in.Topic, p.misplaced, t.stage.partitioner, match}
}

// match returns the partitioner that explains the whole sample, "" if none does.
func (p *placement) match() Partitioner {
	for i, other := range partitioners {
		if !p.unfit[i] {
			return other
		}
	}
	return ""
}

type misplacedError struct {
	topic       string
	misplaced   int
	have, match Partitioner
}

func (e *misplacedError) Error() string {
	s := fmt.Sprintf("the first %d records of topic %q: %d sit on the wrong partition by partitioner=%s", placementSample, e.topic, e.misplaced, e.have)
	if e.match == "" {
		return s + ": no known partitioner matches; produce with murmur2"
	}
	return s + fmt.Sprintf(": set partitioner=%s", e.match)
}
