package verify

import (
	"bytes"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// cloudEvent is what the headers of a record say about its identity.
type cloudEvent struct {
	binary     bool
	id, source []byte
	bad        reasons
}

// readCloudEvent reads the binary mode's headers: ce_id makes the mode, with ce_source and specversion 1.0 beside it. The
// structured mode is refused.
func readCloudEvent(headers []kgo.RecordHeader) (c cloudEvent) {
	var version []byte
	any := false
	for _, h := range headers {
		switch {
		case h.Key == "ce_id":
			c.binary, c.id = true, h.Value
		case h.Key == "ce_source":
			c.source = h.Value
		case h.Key == "ce_specversion":
			version = h.Value
		case isStructured(h):
			c.bad |= set(cloudEventsStructured)
		}
		any = any || strings.HasPrefix(h.Key, "ce_")
	}
	if !any {
		return c
	}
	if string(version) != "1.0" || !c.binary || c.source == nil {
		c.bad |= set(cloudEventsInvalid)
	}
	if !validID(c.id) || !validID(c.source) {
		c.bad |= set(badID, cloudEventsInvalid)
	}
	return c
}

func isStructured(h kgo.RecordHeader) bool {
	const mode = "application/cloudevents"
	return strings.EqualFold(h.Key, "content-type") && len(h.Value) >= len(mode) &&
		bytes.EqualFold(h.Value[:len(mode)], []byte(mode))
}
