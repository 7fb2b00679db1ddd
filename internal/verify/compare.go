package verify

import (
	"bytes"
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// compareUpdate judges an update: first whether its input explains it, then the decision, then the numbers.
func (a *audit) compareUpdate(ctx context.Context, in *kgo.Record, x *expected, o *outcome) error {
	switch {
	case x.lane == skipped, x.ruling == isConflict:
		return a.postedAgain(ctx, in, x, o)
	case x.lane == letters:
		a.violate(Ghost, fmt.Sprintf("%s was posted, but %s was due", place(in), x), evidence("input", in), evidence("update", o.rec))
		return nil
	}
	if fault := explain(in, x, o); fault != "" {
		a.violate(Ghost, fmt.Sprintf("%s does not describe its input %s: %s", place(o.rec), place(in), fault), evidence("input", in), evidence("update", o.rec))
		return nil
	}
	if due := x.account.due; due != nil && !o.fits(x) {
		if y := x.on(due, a.autoCreate); o.fits(y) { // only the broken update was wrong, not what the job went on with
			*x = *y
		}
	}
	if fault := o.decision(x); fault != "" {
		a.violate(Ghost, fmt.Sprintf("%s %s, but %s was due", place(o.rec), fault, x), evidence("input", in), evidence("update", o.rec))
	}
	return a.checkChain(ctx, in, x, o)
}

func (a *audit) postedAgain(ctx context.Context, in *kgo.Record, x *expected, o *outcome) error {
	first, err := a.lookupFor(ctx, Duplicate, a.topics.Input, x.first)
	ev := append(present("first", first), evidence("input", in), evidence("update", o.rec))
	a.violate(Duplicate, fmt.Sprintf("%s repeats the id of offset %d and got an update of its own, where %s was due", place(in), x.first, x), ev...)
	return err
}

// fits reports whether decision and numbers follow from the account in x.
func (o *outcome) fits(x *expected) bool {
	after := x.account.behind(&x.event, o.update.applied)
	return o.decision(x) == "" && o.update.differs(&after, x) == ""
}

// on is x with another account before the event.
func (x *expected) on(before *account, autoCreate bool) *expected {
	y := *x
	last := x.account.last
	y.account = *before
	y.account.last = last
	y.why = y.account.refusals(&y.event, autoCreate)
	return &y
}

// behind is the account after an event that was applied or not.
func (a *account) behind(e *event, applied bool) account {
	if applied {
		return a.after(e)
	}
	return *a
}

// explain returns what in an update is not its input's, "" if all is.
func explain(in *kgo.Record, x *expected, o *outcome) string {
	e, u := &x.event, &o.update
	switch redrive, redriven := redriveSource(in); {
	case !bytes.Equal(o.id, e.id) || !bytes.Equal(o.eventSource, e.source):
		return fmt.Sprintf("the event is %s", clip(e.id))
	case !bytes.Equal(o.account, e.account) || !sameBytes(o.rec.Key, in.Key):
		return fmt.Sprintf("the account is %s", clip(e.account))
	case u.kind != e.kind:
		return fmt.Sprintf("the type is %s", e.kind)
	case u.has(uAmount) != (e.kind != accountEvent) || u.amount.amount != e.amount || u.has(uAmount) && u.amount.digits != e.digits:
		return fmt.Sprintf("the amount is %s", e.amount.text(e.digits))
	case u.currency != x.currency():
		return fmt.Sprintf("the currency is %q", x.currency())
	case u.has(uRedriveOf) != redriven || redriven && u.redriveOf != redrive:
		return "the redriven record is another one"
	case !sameTime(o.rec, in):
		return fmt.Sprintf("the record time is %d ms", in.Timestamp.UnixMilli())
	}
	return ""
}

// currency is the event's, or its account's where it has none.
func (x *expected) currency() currency {
	if x.event.currency != (currency{}) {
		return x.event.currency
	}
	return x.account.currency
}

// decision compares applied or rejected, and the reason; "" if it is one of those due.
func (o *outcome) decision(x *expected) string {
	u := &o.update
	switch {
	case u.applied && u.has(uReason):
		return "is applied and gives a reason"
	case u.applied && x.why != 0:
		return "applies its input"
	case !u.applied && !u.has(uReason):
		return "rejects its input without a reason"
	case !u.applied && !x.why.has(u.reason):
		return fmt.Sprintf("rejects its input (%s)", u.reason)
	}
	return ""
}

// checkChain compares the account behind the update with the one that the account's previous update leads to (L1).
func (a *audit) checkChain(ctx context.Context, in *kgo.Record, x *expected, o *outcome) error {
	due := x.account.behind(&x.event, o.update.applied)
	fault := o.update.differs(&due, x)
	if fault == "" {
		return nil
	}
	due.due, x.due = nil, &due
	ev := []Evidence{evidence("input", in)}
	if x.account.last >= 0 && x.account.exists() {
		previous, err := a.lookupFor(ctx, Chain, a.topics.Updates, x.account.last)
		if err != nil {
			return err
		}
		ev = append(ev, present("previous update", previous)...)
	}
	if built, err := a.buildsOnAborted(ctx, in, x, o, ev); err != nil || built {
		return err
	}
	a.violate(Chain, fmt.Sprintf("%s does not follow from the account's previous update: %s", place(o.rec), fault), append(ev, evidence("update", o.rec))...)
	return nil
}

// differs compares the numbers of an update, digits included, with an account.
func (u *update) differs(due *account, x *expected) string {
	digits := due.digits
	if !due.exists() {
		digits = x.event.digits
	}
	control := x.event.kind == accountEvent && due.exists()
	switch {
	case u.version != due.version:
		return fmt.Sprintf("version %d, due %d", u.version, due.version)
	case u.balance != written{due.balance, digits}:
		return fmt.Sprintf("balance %s, due %s", u.balance.text(u.balance.digits), due.balance.text(digits))
	case u.held != written{due.held, digits}:
		return fmt.Sprintf("held %s, due %s", u.held.text(u.held.digits), due.held.text(digits))
	case u.has(uStatus) != control || u.has(uMinimum) != control:
		return "status and minimum belong to account events, and only to those"
	case control && (u.status != due.status || u.minimum != written{due.minimum, digits}):
		return fmt.Sprintf("status %s minimum %s, due %s minimum %s", u.status, u.minimum.text(u.minimum.digits), due.status, due.minimum.text(digits))
	}
	return ""
}
