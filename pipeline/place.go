package pipeline

import "fmt"

// misplacedLimit is how many records in a row, from a partition's first, must sit on the wrong partition before the task
// concludes that the partitioner is misnamed rather than that a producer is wrong.
const misplacedLimit = 100

// checkPlace refuses a record whose key belongs to another partition: its state is there.
func (t *Task) checkPlace(in *Input) error {
	want := t.stage.partitioner.Partition(in.Key, t.partitions)
	p := &t.inputs[t.current]
	if want == t.partition {
		p.misplaced = -1
		return nil
	}
	if p.misplaced >= 0 {
		if p.misplaced++; p.misplaced == misplacedLimit {
			return &misplacedError{in.Topic, t.stage.partitioner, t.match(in.Key)}
		}
	}
	return DeadLetter("wrong_partition", fmt.Errorf("key %q belongs to partition %d of %d by %s: produce it with that partitioner", cut(string(in.Key), 80), want, t.partitions, t.stage.partitioner))
}

// match returns the partitioner that would have placed key here, "" if none.
func (t *Task) match(key []byte) Partitioner {
	for _, p := range []Partitioner{Murmur2, CRC32, FNV1a} {
		if p.Partition(key, t.partitions) == t.partition {
			return p
		}
	}
	return ""
}

type misplacedError struct {
	topic       string
	have, match Partitioner
}

func (e *misplacedError) Error() string {
	s := fmt.Sprintf("the first %d records of topic %q all sit on the wrong partition by partitioner=%s", misplacedLimit, e.topic, e.have)
	if e.match == "" {
		return s + ": no known partitioner matches; produce with murmur2"
	}
	return s + fmt.Sprintf(": set partitioner=%s", e.match)
}
