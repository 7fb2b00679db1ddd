package session

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestUserDataFormatIsFrozen(t *testing.T) {
	u := UserData{Fingerprint: 0x0123456789abcdef, Tasks: []WarmTask{{TaskID{"post", 0}, 300}, {TaskID{"post", 7}, 0}}}
	got := hex.EncodeToString(u.Append(nil)) + "\n"
	const path = "testdata/userdata.hex"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("user data changed:\n got %s want %s", got, want)
	}
	for n := range len(u.Append(nil)) {
		if cut, err := ParseUserData(u.Append(nil)[:n]); err == nil {
			t.Errorf("%d bytes of it are read as %+v", n, cut)
		}
	}
	back, err := ParseUserData(u.Append(nil))
	if err != nil || back.Fingerprint != u.Fingerprint || !slices.Equal(back.Tasks, u.Tasks) {
		t.Errorf("read back %+v, %v", back, err)
	}
}

func TestUserDataOfALaterVersionIsReadAsFarAsKnown(t *testing.T) {
	b := UserData{Fingerprint: 9}.Append(nil)
	b[0] = 2
	u, err := ParseUserData(append(b, "what comes later"...))
	if err != nil || u.Fingerprint != 9 {
		t.Errorf("got %+v, %v", u, err)
	}
}

func FuzzParseUserData(f *testing.F) {
	f.Add(UserData{Fingerprint: 1, Tasks: []WarmTask{{TaskID{"s", 1}, 2}}}.Append(nil))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 15})
	f.Fuzz(func(t *testing.T, b []byte) {
		u, err := ParseUserData(b)
		if err != nil {
			return
		}
		again, err := ParseUserData(u.Append(nil))
		if err != nil || !slices.Equal(again.Tasks, u.Tasks) {
			t.Errorf("%x: read %+v, wrote what reads as %+v, %v", b, u, again, err)
		}
	})
}

// group plays the leader: it balances members that own what they were given before.
type group struct {
	t      Topology
	topics map[string]int32
	owned  map[string]map[string][]int32 // member → topic → partitions
	reads  map[string][]string           // member → topics, of those that do not read all: another release
}

func (g *group) balance(members ...string) map[string]map[string][]int32 {
	b := NewBalancer(g.t, func() {}, func(map[string][]int32) {})
	var joined []kmsg.JoinGroupResponseMember
	for _, name := range members {
		m := kmsg.NewJoinGroupResponseMember()
		m.MemberID = name
		reads, other := g.reads[name]
		if !other {
			reads = slices.Sorted(maps.Keys(g.topics))
		}
		m.ProtocolMetadata = b.JoinGroupMetadata(reads, g.owned[name], 1)
		joined = append(joined, m)
	}
	mb, _, err := b.MemberBalancer(joined)
	if err != nil {
		panic(err)
	}
	into, err := mb.(kgo.GroupMemberBalancerOrError).BalanceOrError(g.topics)
	if err != nil {
		panic(err)
	}
	got := map[string]map[string][]int32{}
	for _, a := range into.IntoSyncAssignment() {
		got[a.MemberID], err = b.ParseSyncAssignment(a.MemberAssignment)
		if err != nil {
			panic(err)
		}
	}
	g.owned = got
	return got
}

func joinGroup() *group {
	return &group{
		t:      Topology{StageOf: map[string]string{"orders": "join", "accounts": "join", "clicks": "count"}},
		topics: map[string]int32{"orders": 6, "accounts": 6, "clicks": 5},
	}
}

// settled balances twice: a cooperative move takes two rounds, the first of which only takes away.
func settled(g *group, members ...string) map[string]map[string][]int32 {
	g.balance(members...)
	return g.balance(members...)
}

func TestBalancerNeverSplitsATaskAndSpreadsEvenly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := joinGroup()
		for range rapid.IntRange(1, 6).Draw(t, "rounds") {
			n := rapid.IntRange(1, 8).Draw(t, "members")
			var members []string
			for i := range n {
				members = append(members, fmt.Sprintf("m%d", i))
			}
			checkSpread(t, g, settled(g, members...), n)
		}
	})
}

func checkSpread(t *rapid.T, g *group, got map[string]map[string][]int32, members int) {
	owner := map[string]string{}
	least, most := 1<<30, 0
	for member, topics := range got {
		if !slices.Equal(topics["orders"], topics["accounts"]) {
			t.Fatalf("%s has orders %v and accounts %v", member, topics["orders"], topics["accounts"])
		}
		tasks := len(topics["orders"]) + len(topics["clicks"])
		least, most = min(least, tasks), max(most, tasks)
		for topic, ps := range topics {
			for _, p := range ps {
				tp := fmt.Sprintf("%s/%d", topic, p)
				if owner[tp] != "" {
					t.Fatalf("%s is with %s and %s", tp, owner[tp], member)
				}
				owner[tp] = member
			}
		}
	}
	if len(owner) != 17 {
		t.Fatalf("%d of 17 partitions placed", len(owner))
	}
	if len(got) == members && most-least > 1 {
		t.Fatalf("tasks per member between %d and %d", least, most)
	}
}

func TestBalancerKeepsWhatMembersOwn(t *testing.T) {
	g := joinGroup()
	before := settled(g, "a", "b")
	after := settled(g, "a", "b", "c")
	for _, m := range []string{"a", "b"} {
		for topic, ps := range after[m] {
			for _, p := range ps {
				if !slices.Contains(before[m][topic], p) {
					t.Errorf("%s was given %s/%d, which it did not have", m, topic, p)
				}
			}
		}
	}
}

// During a rolling upgrade a member of the release before reads one input of a task: it keeps nothing of it, and is given nothing.
func TestMemberThatReadsATaskInPartHasNothingOfIt(t *testing.T) {
	g := joinGroup()
	g.reads = map[string][]string{"old": {"clicks", "orders"}}
	g.owned = map[string]map[string][]int32{"old": {"orders": {0, 1, 2, 3, 4, 5}}}
	settled(g, "old", "new")
	got := g.balance("old", "new") // tasks go first, and then the others find their balance
	if len(got["old"]["orders"]) > 0 || len(got["old"]["clicks"]) != 5 || len(got["new"]["orders"]) != 6 || len(got["new"]["accounts"]) != 6 {
		t.Errorf("got %v, want every task of two inputs with the member that reads both, and the others with the other", got)
	}
}

// What a member owned of a topic that was made anew with fewer partitions takes no place in its share.
func TestTasksThatAreGoneTakeNoPlace(t *testing.T) {
	g := joinGroup()
	g.topics["orders"], g.topics["accounts"] = 1, 1
	six := []int32{0, 1, 2, 3, 4, 5}
	g.owned = map[string]map[string][]int32{"a": {"orders": six, "accounts": six}, "b": {"clicks": {0, 1, 2, 3, 4}}}
	got := settled(g, "a", "b")
	if a, b := len(got["a"]["orders"])+len(got["a"]["clicks"]), len(got["b"]["orders"])+len(got["b"]["clicks"]); a != 3 || b != 3 {
		t.Errorf("got %v, want three tasks for each", got)
	}
}

// A task moves in two rounds: as long as one member says that it owns an input, no other is given it.
func TestTaskMovesOnlyWhenItsOwnerHasGivenItUp(t *testing.T) {
	g := joinGroup()
	before := settled(g, "a", "b")
	first := g.balance("a", "b", "c")
	for topic, ps := range first["c"] {
		for _, p := range ps {
			if slices.Contains(before["a"][topic], p) || slices.Contains(before["b"][topic], p) {
				t.Errorf("c is given %s/%d while its owner still has it", topic, p)
			}
		}
	}
	if second := g.balance("a", "b", "c"); len(second["c"]["orders"])+len(second["c"]["clicks"]) < 3 {
		t.Errorf("c has %v after the second round", second["c"])
	}
}

func TestJoinMetadataIsDeterministic(t *testing.T) {
	warm := []WarmTask{{TaskID{"b", 1}, 5}, {TaskID{"a", 2}, 7}}
	b := NewBalancer(Topology{Warm: func() []WarmTask { return slices.Clone(warm) }}, func() {}, nil)
	current := func() map[string][]int32 { return map[string][]int32{"x": {1, 2}, "y": {3}} }
	first := b.JoinGroupMetadata([]string{"x", "y"}, current(), 4)
	slices.Reverse(warm)
	if again := b.JoinGroupMetadata([]string{"x", "y"}, current(), 4); !bytes.Equal(first, again) {
		t.Error("the same membership gave other bytes: the broker would rebalance for nothing")
	}
	meta := kmsg.NewConsumerMemberMetadata()
	if err := meta.ReadFrom(first); err != nil || meta.Generation != 4 || len(meta.OwnedPartitions) != 2 || !slices.Equal(meta.OwnedPartitions[0].Partitions, []int32{1, 2}) {
		t.Errorf("metadata %+v, %v", meta, err)
	}
	if !strings.Contains(string(first), "\x01a\x02\x07") {
		t.Errorf("user data is not in the metadata: %x", first)
	}
}
