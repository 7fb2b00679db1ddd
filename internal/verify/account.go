package verify

// account is what the outcomes so far say about one account. It follows the updates as they stand, even behind a broken one:
// so a break is reported once, where it happens.
type account struct {
	currency               currency
	digits                 int
	balance, held, minimum amount
	status                 status
	version                int64
	last                   int64    // offset of its last update; -1 none
	due                    *account // behind a broken update: what it should have said. The next update shows which was meant
}

func (a *account) exists() bool { return a.status != noStatus }

// refusals returns every rule that an event breaks; none means that it is applied. Which one the job names is its choice.
func (a *account) refusals(e *event, autoCreate bool) (why reasons) {
	if e.kind != accountEvent && !(amount{}).less(e.amount) {
		why |= set(amountNotPositive)
	}
	if !a.exists() {
		if e.kind != credit && e.to != open || e.kind == credit && !autoCreate {
			why |= set(unknownAccount)
		}
		return why
	}
	if a.status == closed {
		why |= set(accountClosed)
	}
	if e.kind == accountEvent {
		return why | a.refuseTransition(e)
	}
	return why | a.refusePosting(e)
}

func (a *account) refuseTransition(e *event) (why reasons) {
	if e.to == open && e.currency != a.currency {
		why |= set(accountExists)
	}
	if e.to == closed && !(a.balance.isZero() && a.held.isZero()) {
		why |= set(closeNotEmpty)
	}
	return why
}

func (a *account) refusePosting(e *event) (why reasons) {
	if e.currency != a.currency {
		why |= set(currencyMismatch)
	}
	if e.kind == debit && a.status == frozen {
		why |= set(accountFrozen)
	}
	if e.kind == debit && a.balance.sub(a.held).sub(e.amount).less(a.minimum) {
		why |= set(insufficientFunds)
	}
	if !a.balance.add(e.signed()).inRange() {
		why |= set(overflow)
	}
	return why
}

// signed is what a posting adds to the balance.
func (e *event) signed() amount {
	if e.kind == debit {
		return e.amount.neg()
	}
	return e.amount
}

// after is the account behind an applied event.
func (a *account) after(e *event) account {
	n := *a
	n.due = nil
	if !n.exists() {
		n.currency, n.digits, n.status = e.currency, e.digits, open
	}
	switch {
	case e.kind != accountEvent:
		n.balance = n.balance.add(e.signed())
		n.version++
	case e.to == open:
		n.status, n.minimum = open, e.minimum
	default:
		n.status = e.to
	}
	return n
}
