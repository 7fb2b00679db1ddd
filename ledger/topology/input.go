package topology

import (
	"errors"

	"github.com/tallystick/tallystick/ledger"
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
)

// Input is a value of credit-events: an event, or why it is none. Decoding does not refuse, because the headers have the
// first word: a value in the structured mode of CloudEvents is not a malformed event, it is another format. To send an event,
// set Event alone.
type Input struct {
	Event     ledger.Event
	Malformed error // a *record.MalformedError
}

var inputCodec record.Codec[Input] = inputs{}

type inputs struct{}

func (inputs) ID() string { return EventCodec.ID() }

func (inputs) Append(dst []byte, v Input) ([]byte, error) {
	if v.Malformed != nil {
		return dst, v.Malformed
	}
	return eventCodec{}.Append(dst, v.Event)
}

func (inputs) Decode(src []byte) (Input, error) {
	e, err := eventCodec{}.Decode(src)
	return Input{e, err}, nil
}

// admit completes the event from headers and key, or says which dead letter the record becomes.
func admit(r *pipeline.Record[string, Input]) error {
	if err := checkMode(r.Headers); err != nil {
		return deadLetter(err)
	}
	if r.Value.Malformed != nil {
		return deadLetter(r.Value.Malformed)
	}
	if err := identify(&r.Value.Event, r.Headers); err != nil {
		return deadLetter(err)
	}
	if id := r.Value.Event.AccountID; r.Key != id {
		return deadLetter(malformed(ledger.KeyMismatch, "the key is %+.80q, account_id is %+.80q: send the account's id as key, byte for byte", r.Key, id))
	}
	return nil
}

func deadLetter(err error) error {
	var m *record.MalformedError
	if !errors.As(err, &m) {
		return err
	}
	return pipeline.DeadLetter(m.Reason, m.Err)
}
