package topology

import (
	"errors"
	"fmt"
	"time"

	"github.com/tallystick/tallystick/ledger"
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

// The ledger's topics. Key is the account id.
var (
	Credits = topics.New("credit-events", record.String, inputCodec)
	Updates = topics.New(string(ledger.ToUpdates), record.String, record.Codec[ledger.Update](updateCodec{}))
	Skipped = topics.New(string(ledger.ToSkipped), record.String, record.Codec[ledger.Skipped](skippedCodec{}))
)

// HeaderRedriveOf is the header of a dead letter that was sent to the input again: topic/partition/offset of the record that
// it repeats. The update carries it on as redrive_of.
const HeaderRedriveOf = "redrive.source"

// DefaultDedupeWindow covers a topic with Kafka's default retention and segment time, a week each.
const DefaultDedupeWindow = 14 * 24 * time.Hour

// Config holds the choices of the ledger. The zero value is valid.
type Config struct {
	// DedupeWindow is how long an event's identity is remembered, in record time: dedupe.window. 0 = DefaultDedupeWindow. It
	// can be widened later, never narrowed.
	DedupeWindow time.Duration
	// AutoCreate lets the first credit open an unknown account: accounts.auto_create, which the command sets by default.
	// Without it such a credit is rejected.
	AutoCreate bool
}

// Ledger declares the job: one stage, "post", from Credits to Updates and Skipped, with the stores "inbox" (identities seen)
// and "accounts". app is the application id.
func Ledger(app string, cfg Config) *pipeline.Pipeline {
	if cfg.DedupeWindow == 0 {
		cfg.DedupeWindow = DefaultDedupeWindow
	}
	p := pipeline.New(app)
	s := p.Stage("post")
	post := &post{
		rules:    ledger.Rules{AutoCreate: cfg.AutoCreate},
		inbox:    state.NewDedupe(s, "inbox", cfg.DedupeWindow),
		accounts: state.NewTable(s, "accounts", record.String, record.Codec[ledger.Account](accountCodec{})),
		updates:  pipeline.NewOutput(s, Updates),
		skipped:  pipeline.NewOutput(s, Skipped),
	}
	pipeline.Handle(s, Credits, post.handle)
	return p
}

// post is the stage: it decides each event once.
type post struct {
	rules    ledger.Rules
	inbox    state.Dedupe
	accounts state.Table[string, ledger.Account]
	updates  pipeline.Output[string, ledger.Update]
	skipped  pipeline.Output[string, ledger.Skipped]
}

func (p *post) handle(c *pipeline.Ctx, r pipeline.Record[string, Input]) error {
	if err := admit(&r); err != nil {
		return err
	}
	e := &r.Value.Event
	id := e.Identity()
	switch p.inbox.Check(c, id, r.Time, fingerprint(e)) {
	case state.Duplicate:
		p.skip(c, id, e)
		return nil
	case state.Conflict:
		return p.conflict(c, id)
	case state.Expired:
		return pipeline.DeadLetter(string(ledger.OutsideDedupeWindow), errExpired)
	}
	p.apply(c, e, r.Headers)
	return nil
}

var errExpired = errors.New("the event is older than the dedupe window and unknown: it may have been applied before; compare with ledger-updates, then send it under a new event_id")

func (p *post) apply(c *pipeline.Ctx, e *ledger.Event, headers []record.Header) {
	before, _ := p.accounts.Get(c, e.AccountID)
	after, update := p.rules.Apply(before, e)
	if update.Applied() {
		p.accounts.Put(c, e.AccountID, after)
	}
	update.Source, update.RedriveOf = ledger.Position(c.Source()), redriveOf(headers)
	p.updates.Send(c, e.AccountID, update)
}

func (p *post) skip(c *pipeline.Ctx, id string, e *ledger.Event) {
	first, _ := p.inbox.First(c, id)
	p.skipped.Send(c, e.AccountID, ledger.Skipped{
		EventID: e.EventID, AccountID: e.AccountID, Reason: ledger.Duplicate, First: ledger.Position(first), Source: ledger.Position(c.Source()),
	})
}

func (p *post) conflict(c *pipeline.Ctx, id string) error {
	first, _ := p.inbox.First(c, id)
	at := first.String()
	return pipeline.DeadLetterWith(string(ledger.Conflict),
		fmt.Errorf("the id was first seen at %s with other content: compare the two, and send what is right under a new event_id", at),
		record.Header{Key: pipeline.HeaderFirst, Value: []byte(at)})
}

// redriveOf reads where a redriven record comes from. The header is no part of the event: one that is not ours is ignored.
func redriveOf(headers []record.Header) ledger.Position {
	for _, h := range headers {
		if h.Key == HeaderRedriveOf {
			p, _ := parsePosition(h.Value)
			return p
		}
	}
	return ledger.Position{}
}

// fingerprint digests what the event says, from its typed fields. Fields and order are part of the format of stored ids: a
// field that comes later is added at the end, and only when it is set, so that no event of today becomes a conflict.
func fingerprint(e *ledger.Event) state.Fingerprint {
	var buf [64]byte
	content := e.Content()
	f := state.Fingerprint{}.String(string(content.Type)).String(content.AccountID).String(string(content.Currency)).Time(content.OccurredAt).String(string(content.To))
	text, _ := content.Amount.AppendText(buf[:0])
	f = f.Bytes(text)
	text, _ = content.Minimum.AppendText(buf[:0])
	return f.Bytes(text)
}
