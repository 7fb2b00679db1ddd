package pipeline

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// transaction counts what the open transaction holds. Its records live in slabs that are reused: no allocation per record.
type transaction struct {
	began   time.Time
	inputs  int
	outputs int
	bytes   int64
	used    int // records added
	slabs   [][]produced
}

// produced is a record in flight and the input that it came from.
type produced struct {
	record kgo.Record
	owner  *ownedTask
	source inputOffset // its place can be stateRecord
}

// stateRecord stands for the place of the input of a state record, and of what a timer sent: its loss is no input's fault.
const stateRecord = -1

const slabSize = 1024

func (t *transaction) reset(now time.Time) {
	*t = transaction{began: now, slabs: t.slabs}
}

// full reports whether the transaction holds as much as one may.
func (t *transaction) full() bool { return t.used >= maxProduced || t.bytes >= maxStaged }

// add returns the next record. The producer holds it until the transaction ended.
func (t *transaction) add(o *ownedTask, source inputOffset) *kgo.Record {
	i := t.used / slabSize
	if i == len(t.slabs) {
		t.slabs = append(t.slabs, make([]produced, slabSize))
	}
	p := &t.slabs[i][t.used%slabSize]
	t.used++
	p.owner, p.source = o, source
	return &p.record
}

// source finds whose record it was that the broker refused. It is off the hot path, so it searches.
func (t *transaction) source(r *kgo.Record) *produced {
	for i := range t.used {
		if p := &t.slabs[i/slabSize][i%slabSize]; &p.record == r {
			return p
		}
	}
	return nil
}
