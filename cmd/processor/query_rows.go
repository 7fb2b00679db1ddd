package main

import (
	"encoding/json"
	"time"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
)

// The answers of /query, which are also what the command prints.

// asOf says how far the task was that an answer comes from.
type asOf struct {
	Task       string     `json:"task"`
	TxnSeq     uint64     `json:"txn_seq"`
	Applied    []nextOf   `json:"applied"`               // next offset of each input
	StreamTime *time.Time `json:"stream_time,omitempty"` // the highest record time applied
}

type nextOf struct {
	Topic string `json:"topic"`
	Next  int64  `json:"next"`
}

func asOfSnapshot(s *pipeline.Snapshot) asOf {
	a := asOf{Task: s.Task.String(), TxnSeq: s.TxnSeq, Applied: []nextOf{}}
	for _, n := range s.Next {
		a.Applied = append(a.Applied, nextOf{n.Topic, n.AppliedNext})
	}
	if s.StreamTime != state.NoStreamTime {
		t := time.UnixMilli(s.StreamTime).UTC()
		a.StreamTime = &t
	}
	return a
}

// queryRow is one row of a table, or one remembered id.
type queryRow struct {
	Store string          `json:"store"`
	Key   json.RawMessage `json:"key"`
	Value json.RawMessage `json:"value,omitempty"` // of a table
	First *firstSeen      `json:"first,omitempty"` // of a dedupe store: where the id was first seen
	asOf
}

type firstSeen struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

func (f *firstSeen) String() string {
	return record.Position{Topic: f.Topic, Partition: f.Partition, Offset: f.Offset}.String()
}

// queryRows is a listing.
type queryRows struct {
	Rows    []queryRow    `json:"rows"`
	More    bool          `json:"more"`    // the limit cut it short
	Missing []missingTask `json:"missing"` // tasks that were not read
}

// missingTask is a task of the store's stage that could not be read here, and why.
type missingTask struct {
	Task     string                    `json:"task"`
	Kind     queryErrorKind            `json:"kind"`
	Why      string                    `json:"why"`
	Instance string                    `json:"instance,omitempty"` // who has it
	Restore  *pipeline.RestoreProgress `json:"restore,omitempty"`
}

// queryStores is the list of all stores.
type queryStores struct {
	App      string        `json:"app"`
	Instance string        `json:"instance"`
	Stores   []queryStore  `json:"stores"`
	Missing  []missingTask `json:"missing"`
}

// queryStore is a store's size in the tasks that were read.
type queryStore struct {
	Store      string   `json:"store"`
	Stage      string   `json:"stage"`
	Kind       string   `json:"kind"`
	KeyCodec   string   `json:"key_codec,omitempty"`
	ValueCodec string   `json:"value_codec,omitempty"`
	Window     string   `json:"window,omitempty"`
	Keys       int64    `json:"keys"`
	Bytes      int64    `json:"bytes"` // of memory
	Tasks      []string `json:"tasks"` // those that were read
	Of         int      `json:"of"`    // how many tasks the stage has
}

// queryErrorKind is what went wrong, for a script.
type queryErrorKind string

const (
	queryUsage     queryErrorKind = "usage"
	queryNoStore   queryErrorKind = "no_store"
	queryNotFound  queryErrorKind = "not_found"
	queryElsewhere queryErrorKind = "elsewhere" // another instance owns the task
	queryNotReady  queryErrorKind = "not_ready" // restoring, stopped, starting, moving
	queryRefused   queryErrorKind = "refused"
	queryFailed    queryErrorKind = "failed"
)

// queryError is the body of an answer that is none.
type queryError struct {
	Kind    queryErrorKind `json:"kind"`
	Message string         `json:"message"`
	Hint    string         `json:"hint,omitempty"`
	Tasks   []missingTask  `json:"tasks,omitempty"` // those that it is about
}

func (e *queryError) Error() string { return e.Message }
