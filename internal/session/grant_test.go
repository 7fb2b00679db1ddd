package session

import (
	"errors"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// joining is a bare session of a stage with two inputs and of one with a single one.
func joining() *Session {
	s := bare()
	s.cfg.Topology = joinGroup().t
	return s
}

// assign plays a sync and what the client then fetches offsets of.
func assign(s *Session, assigned, added map[string][]int32) ([]*Assignment, error) {
	s.onSynced(assigned)
	s.dropUnassigned()
	offsets := map[string]map[int32]kgo.Offset{}
	for tp := range partitionsOf(added) {
		if offsets[tp.Topic] == nil {
			offsets[tp.Topic] = map[int32]kgo.Offset{}
		}
		offsets[tp.Topic][tp.Partition] = kgo.NewOffset()
	}
	tasks, err := s.assignments(offsets)
	slices.SortFunc(tasks, func(a, b *Assignment) int { return a.Task.Compare(b.Task) })
	return tasks, err
}

func TestTaskIsGrantedWithAllItsInputsUnderOneToken(t *testing.T) {
	s := joining()
	all := map[string][]int32{"orders": {0, 1}, "accounts": {0, 1}, "clicks": {1}}
	tasks, err := assign(s, all, all)
	if err != nil || len(tasks) != 3 {
		t.Fatalf("%d tasks, %v, want 3", len(tasks), err)
	}
	join := tasks[2]
	if want := []TopicPartition{{"accounts", 1}, {"orders", 1}}; join.Task != (TaskID{"join", 1}) || !slices.Equal(join.Partitions(), want) || len(join.Missing) > 0 {
		t.Errorf("got %s of %v without %v, want join/1 of both inputs", join.Task, join.Partitions(), join.Missing)
	}
}

// Either input's loss ends the right to the task; one that stays says nothing about the other.
func TestLossOfOneInputEndsTheRightToTheTask(t *testing.T) {
	for _, topic := range []string{"orders", "accounts"} {
		s := joining()
		all := map[string][]int32{"orders": {0, 1}, "accounts": {0, 1}}
		tasks, err := assign(s, all, all)
		if err != nil {
			t.Fatal(err)
		}
		s.onLost(t.Context(), nil, map[string][]int32{topic: {0}})
		if tasks[0].Token.Live() || !tasks[1].Token.Live() {
			t.Errorf("%s/0 was lost: live %v and %v, want the other task's alone", topic, tasks[0].Token.Live(), tasks[1].Token.Live())
		}
	}
}

func TestTaskThatIsOwnedInPartSaysWhatIsMissing(t *testing.T) {
	s := joining()
	part := map[string][]int32{"orders": {0}}
	tasks, err := assign(s, part, part)
	if err != nil || len(tasks) != 1 || !slices.Equal(tasks[0].Missing, []string{"accounts"}) || !tasks[0].Token.Live() {
		t.Fatalf("got %+v, %v, want a task without accounts", tasks, err)
	}
	s.dropUnassigned()
	if !tasks[0].Token.Live() {
		t.Error("the task is no longer shown")
	}
	s.onLost(t.Context(), nil, part)
	if tasks[0].Token.Live() {
		t.Error("the task is still shown when nothing of it is left")
	}
}

// A swallowed revoke of one input is noticed at the next begin, and what is left of the task is shown.
func TestRemainderOfATaskIsShown(t *testing.T) {
	s := joining()
	all := map[string][]int32{"orders": {0, 1}, "accounts": {0, 1}}
	tasks, err := assign(s, all, all)
	if err != nil {
		t.Fatal(err)
	}
	if s.Remainder(TaskID{"join", 0}) != nil {
		t.Error("a whole task has a remainder")
	}
	if _, err := assign(s, map[string][]int32{"orders": {0}}, nil); err != nil {
		t.Fatal(err)
	}
	if tasks[0].Token.Live() || tasks[1].Token.Live() {
		t.Error("a token outlived its task")
	}
	a := s.Remainder(TaskID{"join", 0})
	if a == nil || !slices.Equal(a.Missing, []string{"accounts"}) || !slices.Equal(a.Partitions(), []TopicPartition{{"orders", 0}}) || !a.Token.Live() {
		t.Fatalf("got %+v, want what is left of join/0", a)
	}
	if a := s.Remainder(TaskID{"join", 1}); a != nil {
		t.Errorf("got %+v of a task that went whole", a)
	}
}

// There is no remainder of what is shown already, of what comes back whole (the gate grants it, with its starts), and of a session
// that has ended.
func TestTaskWithoutARemainder(t *testing.T) {
	id, all := TaskID{"join", 0}, map[string][]int32{"orders": {0}, "accounts": {0}}
	s := joining()
	if _, err := assign(s, all, all); err != nil {
		t.Fatal(err)
	}
	s.onLost(t.Context(), nil, map[string][]int32{"accounts": {0}})
	if a := s.Remainder(id); a != nil {
		t.Errorf("the group has it whole, and a remainder of %v is granted", a.Partitions())
	}
	s.onSynced(map[string][]int32{"orders": {0}})
	shown := s.Remainder(id)
	if shown == nil || s.Remainder(id) != nil || !shown.Token.Live() {
		t.Errorf("got %+v: want it shown once, and not taken back by a second look", shown)
	}
	shown.Token.Kill()
	delete(s.grants, id)
	s.closed = true
	if s.Remainder(id) != nil {
		t.Error("a closed session grants")
	}
}

// What is fetched of the first input was begun before the task had a start: only a new join gives both at once.
func TestInputsThatComeOneAfterTheOtherMakeTheMemberJoinAgain(t *testing.T) {
	s := joining()
	part := map[string][]int32{"orders": {0}}
	if _, err := assign(s, part, part); err != nil {
		t.Fatal(err)
	}
	all := map[string][]int32{"orders": {0}, "accounts": {0}}
	_, err := assign(s, all, map[string][]int32{"accounts": {0}})
	var piecemeal *PiecemealError
	if !errors.As(err, &piecemeal) || !slices.Equal(piecemeal.Earlier, []string{"orders"}) || FateOf(err) != Rebuild {
		t.Fatalf("got %v, want that orders came before", err)
	}
	s.onExpelled(t.Context(), nil, all)
	tasks, err := assign(s, all, all)
	if err != nil || len(tasks) != 1 || len(tasks[0].Missing) > 0 {
		t.Errorf("got %+v, %v after the new join", tasks, err)
	}
}
