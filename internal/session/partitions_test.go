package session

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
)

// The count is the brokers', not the one that the client remembers.
func TestPartitionsAreCountedByTheBrokers(t *testing.T) {
	_, client := embedded(t, 4, "a", "b")
	counted := func(want int32) {
		t.Helper()
		got, err := PartitionCounts(t.Context(), client, "a", "b")
		if err != nil || len(got) != 2 || got["a"] != 4 || got["b"] != want {
			t.Errorf("%v, %v", got, err)
		}
	}
	counted(4)
	if done, err := kadm.NewClient(client).UpdatePartitions(t.Context(), 6, "b"); err != nil || done.Error() != nil {
		t.Fatal(err, done.Error())
	}
	counted(6)
	if got, err := PartitionCounts(t.Context(), client, "a", "absent"); err == nil || !strings.Contains(err.Error(), `"absent"`) {
		t.Errorf("%v, %v", got, err)
	}
}
