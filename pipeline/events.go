package pipeline

import (
	"time"

	"github.com/tallystick/tallystick/internal/session"
)

// TaskID names a task: a stage and a partition number.
type TaskID = session.TaskID

// Transaction describes a worker's transaction.
type Transaction struct {
	Worker   int
	Tasks    []TaskID // tasks that took part
	Inputs   int      // records processed, control records included
	Outputs  int      // records produced, without state records
	Records  int      // all records produced
	Bytes    int64    // keys and values produced
	Duration time.Duration
}

// Restore describes a finished restore.
type Restore struct {
	Task     TaskID
	Records  int64
	From, To int64            // offsets of the state partition
	ByProof  bool             // proven below the high watermark: no open transaction was waited for
	Warm     bool             // the contents were in memory already
	Next     map[string]int64 // by input topic: first offset to process
	Duration time.Duration
}

// Events are optional callbacks. They run on the worker's goroutine, or on the restore's, must return quickly and must not
// call the processor. Several workers call them at once.
type Events struct {
	Produced  func(Transaction)                           // all records are written, the commit has not begun
	Committed func(Transaction)                           // proven, and merged into the state
	Aborted   func(Transaction, error)                    // proven, and undone
	Rebuilt   func(worker int, cause error)               // the session was thrown away
	Assigned  func(TaskID)                                // a restore begins
	Restored  func(Restore)                               // the task is proven and runs
	Lost      func(TaskID)                                // another member has it now
	Stopped   func(TaskID, error)                         // the task needs a person; the others go on
	Fenced    func(transactionalID string)                // a dead instance's transaction was ended
	Violated  func(invariant string, t TaskID, err error) // an invariant did not hold; nothing was processed
}
