package session

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/internal/mutant"
)

// TaskID names a task: partition Partition of every input of the stage.
type TaskID struct {
	Stage     string
	Partition int32
}

// String returns "stage/partition".
func (id TaskID) String() string { return fmt.Sprintf("%s/%d", id.Stage, id.Partition) }

// Compare orders by stage, then by partition.
func (id TaskID) Compare(o TaskID) int {
	return cmp.Or(cmp.Compare(id.Stage, o.Stage), cmp.Compare(id.Partition, o.Partition))
}

// WarmTask says how far this process holds a task's state: the next offset of its state partition, 0 if none.
type WarmTask struct {
	TaskID
	Position int64
}

// Topology is what the balancer must know of the pipeline.
type Topology struct {
	StageOf     map[string]string // input topic → stage
	Fingerprint uint64            // XXH64 of the fingerprint texts of all stages
	Warm        func() []WarmTask // called when the member joins; may be called concurrently
}

// UserData is what a member tells the group's leader about itself. The format is frozen and versioned.
type UserData struct {
	Fingerprint uint64
	Tasks       []WarmTask
}

const userDataVersion = 1

// Append appends the wire form: version, fingerprint, tasks in order.
func (u UserData) Append(dst []byte) []byte {
	dst = append(dst, userDataVersion)
	dst = binary.BigEndian.AppendUint64(dst, u.Fingerprint)
	dst = binary.AppendUvarint(dst, uint64(len(u.Tasks)))
	for _, t := range u.Tasks {
		dst = binary.AppendUvarint(dst, uint64(len(t.Stage)))
		dst = append(dst, t.Stage...)
		dst = binary.AppendUvarint(dst, uint64(t.Partition))
		dst = binary.AppendUvarint(dst, uint64(t.Position))
	}
	return dst
}

// ParseUserData reads what Append wrote. A version above 1 is not an error: the known prefix is returned, so that members of
// two releases can share a group.
func ParseUserData(b []byte) (u UserData, err error) {
	if len(b) < 9 || b[0] == 0 {
		return u, errors.New("balancer user data: too short or without a version")
	}
	if b[0] != userDataVersion && mutant.On("user-data-of-one-version") {
		return u, errors.New("balancer user data: another version")
	}
	u.Fingerprint = binary.BigEndian.Uint64(b[1:])
	r := reader{b: b[9:]}
	n := r.uvarint()
	for range n {
		t := WarmTask{TaskID: TaskID{Stage: string(r.bytes())}}
		t.Partition = int32(r.uvarint())
		t.Position = int64(r.uvarint())
		if r.short {
			return u, errors.New("balancer user data: cut short")
		}
		u.Tasks = append(u.Tasks, t)
	}
	if r.short {
		return u, errors.New("balancer user data: cut short")
	}
	return u, nil
}

type reader struct {
	b     []byte
	short bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.short, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.short, r.b = true, nil
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// taskBalancer assigns tasks, not topic-partitions: sticky, even by task count, cooperative (KIP-429). The client's sticky
// balancer places single partitions, so that a task's two inputs end up on two members.
type taskBalancer struct {
	t       Topology
	joining func()
	synced  func(assigned map[string][]int32)
}

// NewBalancer returns the group balancer of the topology. Its protocol name is part of the group's contract. joining is
// called before this member joins, synced with what it is then given, before any callback of the client. Neither may block.
func NewBalancer(t Topology, joining func(), synced func(assigned map[string][]int32)) kgo.GroupBalancer {
	return taskBalancer{t, joining, synced}
}

func (taskBalancer) ProtocolName() string { return "tallystick" }
func (taskBalancer) IsCooperative() bool  { return true }

func (b taskBalancer) ParseSyncAssignment(assignment []byte) (map[string][]int32, error) {
	assigned, err := kgo.ParseConsumerSyncAssignment(assignment)
	if err == nil {
		b.synced(assigned)
	}
	return assigned, err
}

func (b taskBalancer) JoinGroupMetadata(interests []string, current map[string][]int32, generation int32) []byte {
	b.joining()
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Version, meta.Topics, meta.Generation = 3, interests, generation
	for _, topic := range slices.Sorted(maps.Keys(current)) {
		owned := kmsg.NewConsumerMemberMetadataOwnedPartition()
		owned.Topic, owned.Partitions = topic, current[topic]
		meta.OwnedPartitions = append(meta.OwnedPartitions, owned)
	}
	var warm []WarmTask
	if b.t.Warm != nil {
		warm = b.t.Warm()
	}
	slices.SortFunc(warm, func(x, y WarmTask) int { return x.Compare(y.TaskID) })
	meta.UserData = UserData{b.t.Fingerprint, warm}.Append(nil)
	return meta.AppendTo(nil)
}

func (b taskBalancer) MemberBalancer(members []kmsg.JoinGroupResponseMember) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	cb, err := kgo.NewConsumerBalancer(b, members)
	if err != nil {
		return nil, nil, err
	}
	return cb, cb.MemberTopics(), nil
}

// Balance implements kgo.ConsumerBalancerBalance.
func (b taskBalancer) Balance(cb *kgo.ConsumerBalancer, topics map[string]int32) kgo.IntoSyncAssignment {
	a := newAllocation(b.tasks(topics), cb)
	a.keepOwned(b.t.StageOf)
	a.placeRest()
	plan := cb.NewPlan()
	for _, id := range a.ids {
		if owner, ok := a.owner[id]; ok {
			member, _ := cb.MemberAt(owner)
			for _, topic := range a.inputs[id] {
				plan.AddPartition(member, topic, id.Partition)
			}
		}
	}
	if !mutant.On("balancer-moves-at-once") {
		plan.AdjustCooperative(cb)
	}
	return plan
}

// tasks groups the partitions of all topics by task. A topic of an unknown stage (another release's) is a stage of its own.
func (b taskBalancer) tasks(topics map[string]int32) map[TaskID][]string {
	inputs := map[TaskID][]string{}
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		for p := range topics[topic] {
			id := TaskID{stageOf(b.t.StageOf, topic), p}
			inputs[id] = append(inputs[id], topic)
		}
	}
	return inputs
}

func stageOf(stages map[string]string, topic string) string {
	if s, ok := stages[topic]; ok && !mutant.On("split-task") {
		return s
	}
	return "topic:" + topic
}

// allocation is one round of balancing.
type allocation struct {
	ids    []TaskID
	inputs map[TaskID][]string
	owner  map[TaskID]int
	load   []int
	share  int // tasks every member gets
	extra  int // members that get one more
	wants  []map[string]bool
	metas  []*kmsg.ConsumerMemberMetadata
}

func newAllocation(inputs map[TaskID][]string, cb *kgo.ConsumerBalancer) *allocation {
	n := len(cb.Members())
	a := &allocation{inputs: inputs, owner: map[TaskID]int{}, load: make([]int, n)}
	a.ids = slices.SortedFunc(maps.Keys(inputs), TaskID.Compare)
	a.share, a.extra = len(a.ids)/n, len(a.ids)%n
	for i := range n {
		_, meta := cb.MemberAt(i)
		wants := map[string]bool{}
		for _, topic := range meta.Topics {
			wants[topic] = true
		}
		a.metas, a.wants = append(a.metas, meta), append(a.wants, wants)
	}
	return a
}

// eligible reports whether a member subscribes to all inputs of a task; during a rolling upgrade some do not.
func (a *allocation) eligible(member int, id TaskID) bool {
	for _, topic := range a.inputs[id] {
		if !a.wants[member][topic] && !mutant.On("balancer-gives-what-is-not-read") {
			return false
		}
	}
	return true
}

// room takes a place on a member, if it has one within its share.
func (a *allocation) room(member int) bool {
	switch {
	case a.load[member] < a.share:
	case a.load[member] == a.share && a.extra > 0:
		a.extra--
	default:
		return false
	}
	a.load[member]++
	return true
}

func (a *allocation) keepOwned(stages map[string]string) {
	if mutant.On("balancer-not-sticky") {
		return
	}
	for i, meta := range a.metas {
		for _, owned := range meta.OwnedPartitions {
			for _, p := range owned.Partitions {
				id := TaskID{stageOf(stages, owned.Topic), p}
				if _, taken := a.owner[id]; taken || a.inputs[id] == nil || !a.eligible(i, id) {
					continue
				}
				if a.room(i) {
					a.owner[id] = i
				}
			}
		}
	}
}

func (a *allocation) placeRest() {
	for _, id := range a.ids {
		if _, ok := a.owner[id]; ok {
			continue
		}
		least := -1
		for i := range a.load {
			if a.eligible(i, id) && (least < 0 || a.load[i] < a.load[least] && !mutant.On("balancer-uneven")) {
				least = i
			}
		}
		if least >= 0 {
			a.owner[id] = least
			a.load[least]++
		}
	}
}
