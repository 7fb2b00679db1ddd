package jobtest

import (
	"testing"
	"time"
)

// A partition is back with its first commit that was both written and seen after the fault, and the job with its last partition.
func TestRecoveredIsWhenTheLastPartitionIsBack(t *testing.T) {
	begin := time.Now()
	second := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	c := &Commits{seen: []Commit{
		{Partition: 0, Written: second(1), At: second(2)},
		{Partition: 1, Written: second(1), At: second(7)}, // written before the fault and seen late
		{Partition: 0, Written: second(6), At: second(8)},
		{Partition: 0, Written: second(8), At: second(9)},
	}}
	fault := second(5)
	if at, err := c.Recovered(2, fault); err == nil {
		t.Errorf("recovered at %v, with nothing of partition 1", at)
	}
	if at, err := c.Recovered(1, fault); err != nil || !at.Equal(second(8)) {
		t.Errorf("%v, %v, want the first commit of partition 0 since, not a later one", at, err)
	}
	c.seen = append(c.seen, Commit{Partition: 1, Written: second(10), At: second(11)}, Commit{Partition: 0, Written: second(11), At: second(12)})
	if at, err := c.Recovered(2, fault); err != nil || !at.Equal(second(11)) {
		t.Errorf("%v, %v, want the first of partition 1 since", at, err)
	}
}
