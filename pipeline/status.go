package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tallystick/tallystick/internal/session"
)

// TaskState is where a task is in its life.
type TaskState string

// The states of a task.
const (
	Restoring TaskState = "restoring"
	Running   TaskState = "running"
	Stopped   TaskState = "stopped"
)

// Status is a snapshot of a processor. It is the caller's.
type Status struct {
	App      string         `json:"app"`      // application.id
	Instance string         `json:"instance"` // the name under which this process takes part
	Started  time.Time      `json:"started"`
	Workers  []WorkerStatus `json:"workers"`                // all that run, by number
	Tasks    []TaskStatus   `json:"tasks"`                  // those assigned to this process, by stage and partition
	Grown    []GrownInput   `json:"grown_inputs,omitempty"` // inputs that got partitions since the start: nobody processes those
}

// WorkerStatus is one worker's.
type WorkerStatus struct {
	Worker          int       `json:"worker"`
	TransactionalID string    `json:"transactional_id"`
	Joined          bool      `json:"joined"` // a session is open
	Commits         int64     `json:"commits"`
	Aborts          int64     `json:"aborts"`
	Rebuilds        int64     `json:"rebuilds"`
	LastCommit      time.Time `json:"last_commit,omitzero"`
	LastError       string    `json:"last_error,omitempty"`
}

// TaskStatus is one assigned task's. Offsets are next offsets.
type TaskStatus struct {
	Task          string           `json:"task"`
	Stage         string           `json:"stage"`
	Partition     int32            `json:"partition"`
	Worker        int              `json:"worker"`
	State         TaskState        `json:"state"`
	AppliedNext   int64            `json:"applied_next"` // sum over the inputs
	EndNext       *int64           `json:"end_next"`     // sum over the inputs, nil (null) when one of them is unknown; less AppliedNext it is the lag
	Inputs        []InputStatus    `json:"inputs"`       // by order of declaration
	TxnSeq        uint64           `json:"txn_seq"`
	StateBytes    int64            `json:"state_bytes"`
	StatePosition int64            `json:"state_position"`
	Error         string           `json:"error,omitempty"`
	Restore       *RestoreProgress `json:"restore,omitempty"` // while it is read back; not changed once it is here
}

// RestoreProgress says how far a restore is. Offsets are those of the state partition; they count more than its records, since
// compaction leaves gaps.
type RestoreProgress struct {
	From    int64     `json:"from"`    // first offset to read
	Next    int64     `json:"next"`    // next offset to read
	Target  int64     `json:"target"`  // where the restore ends, if nothing proves the contents earlier
	Records int64     `json:"records"` // read so far
	Began   time.Time `json:"began"`
	Moved   time.Time `json:"moved"` // when Next was last further than before
	At      time.Time `json:"at"`    // when this was looked at
}

// at is the same, looked at now. What the board holds is not changed.
func (r *RestoreProgress) at(now time.Time) *RestoreProgress {
	if r == nil {
		return nil
	}
	looked := *r
	looked.At = now
	return &looked
}

// Percent returns 0 to 100, by offsets.
func (r *RestoreProgress) Percent() float64 {
	if r.Target <= r.From {
		return 100
	}
	return 100 * float64(r.Next-r.From) / float64(r.Target-r.From)
}

// Stalled returns how long nothing has come, 0 for less than two seconds: an open transaction holds the state topic up, which
// the log names, or a broker does not answer.
func (r *RestoreProgress) Stalled() time.Duration {
	if d := r.At.Sub(r.Moved); d >= 2*time.Second {
		return d
	}
	return 0
}

// Left estimates the time that is left at the rate so far; false while nothing has been read, or nothing comes.
func (r *RestoreProgress) Left() (time.Duration, bool) {
	if r.Next <= r.From || r.Stalled() > 0 {
		return 0, false
	}
	return time.Duration(float64(r.At.Sub(r.Began)) * float64(r.Target-r.Next) / float64(r.Next-r.From)), true
}

// String returns records, percent and the time left, or that nothing comes.
func (r *RestoreProgress) String() string {
	left := "time left unknown"
	if d, ok := r.Left(); ok {
		left = "about " + d.Round(100*time.Millisecond).String() + " left"
	} else if d := r.Stalled(); d > 0 {
		left = "nothing came for " + d.Round(time.Second).String() + ": the log says what holds it up"
	}
	return fmt.Sprintf("%d records, %.0f%% (offset %d of %d), %s", r.Records, r.Percent(), r.Next, r.Target, left)
}

// board is what workers write and Status reads.
type board struct {
	mu      sync.Mutex
	workers []WorkerStatus
	tasks   map[TaskID]TaskStatus
}

func newBoard() *board { return &board{tasks: map[TaskID]TaskStatus{}} }

func (b *board) worker(i int, change func(*WorkerStatus)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.workers) <= i {
		b.workers = append(b.workers, WorkerStatus{Worker: len(b.workers)})
	}
	change(&b.workers[i])
}

func (b *board) task(id TaskID, change func(*TaskStatus)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, ok := b.tasks[id]
	if !ok {
		t = TaskStatus{Task: id.String(), Stage: id.Stage, Partition: id.Partition}
	}
	change(&t)
	b.tasks[id] = t
}

func (b *board) find(id TaskID) (TaskStatus, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, ok := b.tasks[id]
	return t, ok
}

// drop forgets a task unless another worker of this process has it already.
func (b *board) drop(id TaskID, worker int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tasks[id].Worker == worker {
		delete(b.tasks, id)
	}
}

func (b *board) snapshot() ([]WorkerStatus, []TaskStatus) {
	b.mu.Lock()
	defer b.mu.Unlock()
	tasks := make([]TaskStatus, 0, len(b.tasks))
	for _, t := range b.tasks {
		tasks = append(tasks, t)
	}
	slices.SortFunc(tasks, func(x, y TaskStatus) int {
		if x.Stage != y.Stage {
			return strings.Compare(x.Stage, y.Stage)
		}
		return int(x.Partition - y.Partition)
	})
	return slices.Clone(b.workers), tasks
}

// warm lists the local positions of all tasks, for the balancer.
func (b *board) warm() []session.WarmTask {
	_, tasks := b.snapshot()
	warm := make([]session.WarmTask, 0, len(tasks))
	for _, t := range tasks {
		warm = append(warm, session.WarmTask{TaskID: TaskID{Stage: t.Stage, Partition: t.Partition}, Position: t.StatePosition})
	}
	return warm
}
