package state

import (
	"testing"

	"github.com/tallystick/tallystick/record"
)

func TestPutOfNullDeletesAndOfNothingDoesNot(t *testing.T) {
	var rows Table[string, record.Optional[string]]
	k := newTask(func(s *stage) { rows = NewTable(s, "rows", record.String, record.Nullable(record.String)) })
	k.record(1)
	rows.Put(k.view, "empty", record.Some("")) // the first write: no buffer was used yet
	rows.Put(k.view, "gone", record.Some("a"))
	rows.Put(k.view, "gone", record.Optional[string]{})
	rows.Put(k.view, "never", record.Optional[string]{})
	if err := k.view.Err(); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]bool{"empty": true, "gone": false, "never": false} {
		if got, ok := rows.Get(k.view, key); ok != want || got.Set != want {
			t.Errorf("%s: %+v %v, want a row: %v", key, got, ok, want)
		}
	}
}
