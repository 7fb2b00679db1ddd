package topology_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/tallystick/tallystick/ledger/topology"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/state.golden anew; only before a format is released")

// TestStateIsTheseBytes pins what the ledger leaves on disk for ever: identities and content fingerprints in the inbox, and
// accounts. A change here makes redelivered events conflicts, or accounts unreadable.
func TestStateIsTheseBytes(t *testing.T) {
	b := newBench(t, topology.Config{AutoCreate: true}, nil)
	b.send(raw(whole))
	b.send(withHeaders(replace("INR", "KWD"), "ce_specversion", "1.0", "ce_id", "EVT-1", "ce_source", "/bank"))
	b.send(keyed("é", `{"event_id":"EVT-2","account_id":"é","type":"account","to":"open","currency":"JPY","minimum":"-100","occurred_at":"2026-11-30T10:00:00.5+05:30"}`))
	b.send(keyed("é", `{"event_id":"EVT-3","account_id":"é","type":"account","to":"frozen","occurred_at":"1970-01-01T00:00:00Z"}`))
	b.send(raw(`{"event_id":"EVT-4","account_id":"ACC-7","type":"debit","amount":"0.50","currency":"INR","occurred_at":"2100-01-01T00:00:00Z"}`))
	sealed, err := b.task.Seal("test")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, r := range sealed.Records[:len(sealed.Records)-1] { // the marker is the engine's
		got.WriteString(hex.EncodeToString(r.Key) + " " + hex.EncodeToString(r.Value) + "\n")
	}
	const file = "testdata/state.golden"
	if *rewrite {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(want, []byte(got.String())) {
		t.Errorf("got\n%swant\n%s%v", got.String(), want, err)
	}
}
