package topology

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tallystick/tallystick/ledger"
	"github.com/tallystick/tallystick/record"
)

// The headers of CloudEvents 1.0, binary mode, in the Kafka protocol binding.
const (
	cePrefix      = "ce_"
	ceID          = "ce_id"
	ceSource      = "ce_source"
	ceSpecVersion = "ce_specversion"
	contentType   = "content-type"
	structured    = "application/cloudevents"
)

// checkMode refuses the structured mode, whatever the value holds.
func checkMode(headers []record.Header) error {
	for _, h := range headers {
		if !strings.EqualFold(h.Key, contentType) || len(h.Value) < len(structured) {
			continue
		}
		if mode := string(h.Value[:len(structured)]); strings.EqualFold(mode, structured) {
			return malformed(ledger.CloudEventsStructured, "content-type %.80q: send CloudEvents in binary mode, with ce_ headers and the event as value", h.Value)
		}
	}
	return nil
}

// identify gives e the identity that the headers say, where they say one. Of a header that repeats, the last one counts, as
// in Kafka's own lastHeader.
func identify(e *ledger.Event, headers []record.Header) error {
	ce, any := readCloudEvent(headers)
	if !any {
		if e.EventID == "" {
			return malformed(ledger.MissingMember, "member %q is missing, and there is no header %s", memberName(eventID), ceID)
		}
		return nil
	}
	if err := ce.check(e); err != nil {
		return malformedBy(ledger.CloudEventsInvalid, err)
	}
	e.EventID, e.Source = string(ce.id), string(ce.source)
	return nil
}

type cloudEvent struct{ id, source, version []byte }

func readCloudEvent(headers []record.Header) (c cloudEvent, any bool) {
	for _, h := range headers {
		if !strings.HasPrefix(h.Key, cePrefix) {
			continue
		}
		any = true
		switch h.Key {
		case ceID:
			c.id = h.Value
		case ceSource:
			c.source = h.Value
		case ceSpecVersion:
			c.version = h.Value
		}
	}
	return c, any
}

func (c cloudEvent) check(e *ledger.Event) error {
	if string(c.version) != "1.0" {
		return fmt.Errorf("%s is %.20q: send 1.0", ceSpecVersion, c.version)
	}
	if err := ledger.CheckID(string(c.id)); err != nil {
		return fmt.Errorf("%s: %w", ceID, err)
	}
	if err := ledger.CheckID(string(c.source)); err != nil {
		return fmt.Errorf("%s: %w", ceSource, err)
	}
	if e.EventID != "" && e.EventID != string(c.id) {
		return errors.New("event_id in the value and ce_id in the headers differ: send one of them, or the same twice")
	}
	return nil
}
