package pipeline

import (
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
	Workers  []WorkerStatus `json:"workers"` // all that run, by number
	Tasks    []TaskStatus   `json:"tasks"`   // those assigned to this process, by stage and partition
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
	Task          string    `json:"task"`
	Stage         string    `json:"stage"`
	Partition     int32     `json:"partition"`
	Worker        int       `json:"worker"`
	State         TaskState `json:"state"`
	AppliedNext   int64     `json:"applied_next"`
	EndNext       int64     `json:"end_next"` // high watermark of the input as last fetched, -1 unknown
	TxnSeq        uint64    `json:"txn_seq"`
	StateBytes    int64     `json:"state_bytes"`
	StatePosition int64     `json:"state_position"`
	Error         string    `json:"error,omitempty"`
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
		t = TaskStatus{Task: id.String(), Stage: id.Stage, Partition: id.Partition, EndNext: -1}
	}
	change(&t)
	b.tasks[id] = t
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
