package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

// resetMark begins the metadata of the group's offsets while a reset is under way. It is no proof of the engine's, so that a task
// that meets it stops.
const resetMark = "tallystick/reset "

// wasMark ends it with the offset that the job itself had committed, or -.
const wasMark = "; it was "

// reset is one run of reset plan or apply.
type reset struct {
	cli    *cli
	cfg    Config
	job    *pipeline.Pipeline
	client *kgo.Client
	flags  resetFlags
	mode   string
	made   map[string]int32 // partitions of the topics that a restart makes again
}

// resetPlan is what a reset does, and once applied, did.
type resetPlan struct {
	Application string        `json:"application_id"`
	Mode        string        `json:"mode"` // earliest, latest, time, offset, marker, lost; empty: nothing chosen
	Done        bool          `json:"done"`
	HalfDone    string        `json:"half_done,omitempty"` // a reset that was begun and not finished
	Members     []groupMember `json:"members"`             // of a live group: the reset is refused
	Open        []string      `json:"open_transactions"`   // of this job: they are ended first
	Topics      []resetTopic  `json:"topics"`              // deleted and made again
	Tasks       []*resetTask  `json:"tasks"`
	Kept        []string      `json:"kept"`
	Warnings    []string      `json:"warnings"`
	refusals    []string
}

// resetTopic is a topic that is deleted and made again.
type resetTopic struct {
	Topic      string `json:"topic"`
	Partitions int32  `json:"partitions"` // 0: it is not there
	Records    int64  `json:"records"`    // offsets from start to end
	id         [16]byte
}

// resetTask is one input partition of a task. Offsets are next offsets; nil is unknown or none.
type resetTask struct {
	Task      string     `json:"task"`
	Topic     string     `json:"topic"`
	Partition int32      `json:"partition"`
	Start     int64      `json:"start"` // of the input
	End       int64      `json:"end"`
	Committed *int64     `json:"committed"`
	Applied   *int64     `json:"applied"` // by the marker; read for --to-marker and without a choice
	To        *int64     `json:"to"`      // where it will start; nil: left as it is
	Note      string     `json:"note,omitempty"`
	Lost      *lostRange `json:"lost,omitempty"` // given up by --skip-lost

	stage    *pipeline.Stage
	metadata string
	marker   *state.Marker
}

// again counts the offsets that are processed a second time, never those that are skipped.
func (t *resetTask) again() (again, skipped int64) {
	if t.To == nil {
		return 0, 0
	}
	from := t.Start
	if t.Committed != nil {
		from = max(from, *t.Committed)
	}
	return max(0, from-*t.To), max(0, *t.To-from)
}

func (r *reset) restarts() bool { return r.mode != "" && r.mode != toMarker && r.mode != skipLost }

// plan reads where everything stands. It changes nothing.
func (r *reset) plan(ctx context.Context) (*resetPlan, error) {
	p := &resetPlan{Application: r.cfg.ApplicationID, Mode: r.mode, Open: []string{}, Topics: []resetTopic{}, Kept: []string{}, Warnings: []string{}}
	r.made = map[string]int32{}
	var err error
	if p.Members, err = groupMembers(ctx, r.client, r.cfg.ApplicationID); err != nil {
		return nil, err
	}
	if p.Open, err = r.open(ctx, p.Members); err != nil {
		return nil, err
	}
	if err := r.planTopics(ctx, p); err != nil {
		return nil, err
	}
	for _, s := range r.job.Stages() {
		for _, input := range s.Inputs() {
			if err := r.planInput(ctx, p, s, input); err != nil {
				return nil, err
			}
		}
	}
	if !r.restarts() {
		if err := r.readMarkers(ctx, p, false); err != nil {
			return nil, err
		}
	}
	r.choose(p)
	r.warn(p)
	return p, nil
}

// open lists the open transactions of the job: what they hold could be committed after the reset, so that they are ended first.
func (r *reset) open(ctx context.Context, members []groupMember) ([]string, error) {
	if err := seesTransactions(ctx, r.cfg, r.client); err != nil {
		return nil, err
	}
	known, err := readTransactions(ctx, kadm.NewClient(r.client), nil, openStates)
	if err != nil {
		return nil, err
	}
	o, ids := newOwners(r.job, members), []string{}
	for _, t := range known {
		if _, _, ok := o.instance(t.TxnID); ok && !o.foreign(t) {
			ids = append(ids, t.TxnID)
		}
	}
	return ids, nil
}

// rebuilt are the topics that a restart deletes and makes again.
func (r *reset) rebuilt() (names []string) {
	for _, w := range r.job.Topics() {
		if isRebuilt(w.Role) && !slices.Contains(names, w.Name) {
			names = append(names, w.Name)
		}
	}
	return names
}

// isRebuilt tells what is the job's alone and means nothing without its state: the stores, and what is in flight between stages.
func isRebuilt(role topics.Role) bool {
	return role == topics.RoleState || role == topics.RoleRepartition
}

// planTopics finds out what is deleted, and that it can be made again: a plan without those topics must refuse nothing.
func (r *reset) planTopics(ctx context.Context, p *resetPlan) error {
	wants := r.job.Topics()
	var names []string
	for _, w := range wants {
		if !slices.Contains(names, w.Name) {
			names = append(names, w.Name)
		}
		if (w.Role == topics.RoleOutput || w.Role == topics.RoleDeadLetters) && !slices.Contains(p.Kept, w.Name) {
			p.Kept = append(p.Kept, w.Name)
		}
	}
	haves, err := topics.NewAdmin(r.client).Describe(ctx, names...)
	if err != nil || !r.restarts() {
		return err
	}
	for _, name := range r.rebuilt() {
		t := resetTopic{Topic: name}
		if have, ok := haves[name]; ok {
			if have.Partitions == 0 {
				return fmt.Errorf("topic %s: %w", name, have.Err)
			}
			t.Partitions, t.id = have.Partitions, have.ID
			if t.Records, err = r.records(ctx, name, have.Partitions); err != nil {
				return err
			}
		}
		p.Topics = append(p.Topics, t)
		delete(haves, name)
	}
	steps := topics.Plan(wants, haves, r.cfg.topicRules())
	for _, s := range steps.Pending() {
		if slices.ContainsFunc(s.Roles, isRebuilt) {
			r.made[s.Topic] = s.Partitions
		}
	}
	if err := steps.Refused(); err != nil {
		p.refusals = append(p.refusals, "the topics could not be made again: "+err.Error())
	}
	return nil
}

func (r *reset) records(ctx context.Context, topic string, partitions int32) (n int64, err error) {
	all, err := lookUp(ctx, kadm.NewClient(r.client), topic, numbered(partitions))
	for _, b := range all {
		n += b.end - b.start
	}
	return n, err
}

func numbered(n int32) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(i)
	}
	return out
}

// planInput adds a task for each partition of an input.
func (r *reset) planInput(ctx context.Context, p *resetPlan, s *pipeline.Stage, input string) error {
	if n, again := r.made[input]; again {
		r.planRepartition(p, s, input, n)
		return nil
	}
	meta, err := topicMetadata(ctx, r.client, input)
	if err != nil {
		return err
	}
	committed, err := committedOffsets(ctx, r.client, r.cfg.ApplicationID, meta)
	if err != nil {
		return fmt.Errorf("committed offsets of group %s: %w", r.cfg.ApplicationID, err)
	}
	all, err := lookUp(ctx, kadm.NewClient(r.client), input, numbered(int32(len(meta.Partitions))))
	if err != nil {
		return err
	}
	targets, err := r.targets(ctx, input, all)
	if err != nil {
		return err
	}
	for _, b := range all {
		c := committed[b.partition]
		if c.err != nil {
			return fmt.Errorf("committed offset of %s/%d: %w", input, b.partition, c.err)
		}
		t := &resetTask{Task: fmt.Sprintf("%s/%d", s.Name(), b.partition), Topic: input, Partition: b.partition, Start: b.start, End: b.end, stage: s, metadata: c.metadata}
		if c.next >= 0 {
			t.Committed = &c.next
		}
		if to, ok := targets[b.partition]; ok {
			t.To = &to
		}
		if rest, under := strings.CutPrefix(c.metadata, resetMark); under {
			var was string
			p.HalfDone, was, _ = strings.Cut(rest, wasMark)
			t.Committed = nil // the number there is the reset's; the job's own is in the mark
			if n, err := strconv.ParseInt(was, 10, 64); err == nil {
				t.Committed = &n
			}
		}
		p.Tasks = append(p.Tasks, t)
	}
	return nil
}

// planRepartition adds the tasks' inputs of a topic that is made again: it begins empty, at 0.
func (r *reset) planRepartition(p *resetPlan, s *pipeline.Stage, input string, partitions int32) {
	for _, n := range numbered(partitions) {
		zero := int64(0)
		p.Tasks = append(p.Tasks, &resetTask{Task: fmt.Sprintf("%s/%d", s.Name(), n), Topic: input, Partition: n, To: &zero, Note: "made again: empty", stage: s})
	}
}

// targets are where the partitions of an input will start; none for --to-marker.
func (r *reset) targets(ctx context.Context, input string, all []bounds) (map[int32]int64, error) {
	out := map[int32]int64{}
	if !r.restarts() {
		return out, nil
	}
	var listed kadm.ListedOffsets
	if r.mode == toTime {
		var err error
		if listed, err = kadm.NewClient(r.client).ListOffsetsAfterMilli(ctx, r.flags.at.UnixMilli(), input); err != nil {
			return nil, fmt.Errorf("topic %s: offsets at %s: %w", input, r.flags.to, err)
		}
	}
	for _, b := range all {
		out[b.partition] = b.start
		switch r.mode {
		case toLatest:
			out[b.partition] = b.stable
		case toTime:
			out[b.partition] = b.stable
			if o, ok := listed.Lookup(input, b.partition); ok && o.Err == nil && o.Offset >= 0 {
				out[b.partition] = o.Offset
			}
		case toOffset:
			at, given := r.flags.given[input][b.partition]
			if given && (at < b.start || at > b.end) {
				return nil, usageErrorf("--to-offset %s/%d=%d: the input has offsets %d to %d", input, b.partition, at, b.start, b.end)
			}
			if given {
				out[b.partition] = at
			}
			delete(r.flags.given[input], b.partition)
		}
	}
	for partition := range r.flags.given[input] {
		return nil, usageErrorf("--to-offset: topic %s has no partition %d", input, partition)
	}
	delete(r.flags.given, input)
	return out, nil
}

// choose decides, where the state is kept, what is moved.
func (r *reset) choose(p *resetPlan) {
	for topic := range r.flags.given {
		p.refusals = append(p.refusals, fmt.Sprintf("--to-offset: topic %s is no input of this job", topic))
	}
	if r.restarts() || r.mode == "" {
		return
	}
	for _, t := range p.Tasks {
		switch {
		case t.marker == nil && t.Committed == nil && t.metadata == "":
			t.Note = "never ran: it starts by auto.offset.reset"
		case t.marker == nil:
			t.Note = "its state topic holds no marker: only --to or --to-offset can help"
			p.refusals = append(p.refusals, fmt.Sprintf("task %s has no marker in %s: its state is gone, start over with --to or --to-offset", t.Task, t.stage.StateTopic()))
		case t.Applied == nil:
			t.Note = "the marker does not know this input: it starts by auto.offset.reset"
		case t.proven():
			t.Note = "as it should be"
		default:
			t.toMarker(p)
		}
		if gap := t.gap(); gap != "" {
			t.Note = gap
		}
	}
	if r.mode == skipLost {
		r.chooseLost(p)
	}
}

// gap is why the task stops where its state ends, whatever the group's offset says; empty when the input goes on there.
func (t *resetTask) gap() string {
	switch {
	case t.Applied == nil:
		return ""
	case *t.Applied < t.Start:
		return fmt.Sprintf("retention deleted %s that were never processed: the task stops there (I4)", counted(int(t.Start-*t.Applied), "offset"))
	case *t.Applied > t.End:
		return fmt.Sprintf("the input ends at offset %d: it lost records or was made anew, and the task stops there", t.End)
	}
	return ""
}

// pending reports whether apply has something to do.
func (p *resetPlan) pending() bool {
	return slices.ContainsFunc(p.Tasks, func(t *resetTask) bool { return t.To != nil })
}

// refusal is why apply would not begin.
func (p *resetPlan) refusal() error {
	if len(p.Members) > 0 {
		return fail(exitFailed, fmt.Errorf("group %s is live: a reset under running instances would be undone or refused half way; its members:%s", p.Application, listMembers(p.Members)),
			"stop these processes; one that is dead leaves after session.timeout.ms, or at once with processor fence <instance> --force")
	}
	if len(p.refusals) > 0 {
		return fail(exitFailed, fmt.Errorf("the reset is refused:\n- %s", strings.Join(p.refusals, "\n- ")), "processor reset plan shows where the tasks stand")
	}
	return nil
}
