package ledger

// Outcome is what became of an event. Each event has exactly one.
type Outcome string

// The outcomes.
const (
	Applied      Outcome = "applied"
	Rejected     Outcome = "rejected"      // well-formed, refused by a rule
	Passed       Outcome = "skipped"       // delivered before
	DeadLettered Outcome = "dead_lettered" // no rule could be asked
)

// Destination is the topic that carries an outcome.
type Destination string

// The destinations. The dead letters' topic has the application's id in front.
const (
	ToUpdates     Destination = "ledger-updates"
	ToSkipped     Destination = "ledger-skipped"
	ToDeadLetters Destination = "dead-letters"
)

// Reason is one machine word that says why an event was not applied.
type Reason string

// Why an event is rejected or skipped.
const (
	AmountNotPositive Reason = "amount_not_positive"
	UnknownAccount    Reason = "unknown_account"
	AccountClosed     Reason = "account_closed"
	AccountFrozen     Reason = "account_frozen"
	AccountExists     Reason = "account_exists" // open again with another currency
	CurrencyMismatch  Reason = "currency_mismatch"
	CloseNotEmpty     Reason = "close_not_empty"
	InsufficientFunds Reason = "insufficient_funds"
	Overflow          Reason = "overflow"

	Duplicate Reason = "duplicate"
)

// Why a record becomes a dead letter: what the engine sees before the event is read, then what makes it no event, then what
// the inbox says.
const (
	NullKey         Reason = "null_key"
	MalformedKey    Reason = "malformed_key"
	WrongPartition  Reason = "wrong_partition"
	FutureTimestamp Reason = "future_timestamp"

	NullValue       Reason = "null_value"
	EmptyValue      Reason = "empty_value"
	MalformedJSON   Reason = "malformed_json"
	DuplicateName   Reason = "duplicate_name"
	UnknownName     Reason = "unknown_name"
	NullMember      Reason = "null_member"
	MissingMember   Reason = "missing_member"
	WrongType       Reason = "wrong_type"
	UnknownType     Reason = "unknown_type"
	UnsupportedType Reason = "unsupported_type" // a type that a later version knows
	BadID           Reason = "bad_id"
	BadTransition   Reason = "bad_transition"
	BadCurrency     Reason = "bad_currency"
	AmountNotString Reason = "amount_not_string"
	AmountSyntax    Reason = "amount_syntax"
	AmountDigits    Reason = "amount_digits"
	AmountRange     Reason = "amount_range"
	NegativeZero    Reason = "negative_zero"
	BadTime         Reason = "bad_time"
	KeyMismatch     Reason = "key_mismatch"

	CloudEventsStructured Reason = "cloudevents_structured"
	CloudEventsInvalid    Reason = "cloudevents_invalid"

	Conflict            Reason = "conflict"
	OutsideDedupeWindow Reason = "outside_dedupe_window"
)

// Row says what a reason means: the outcome, and the topic that carries it.
type Row struct {
	Reason  Reason // "" for what is applied
	Outcome Outcome
	Topic   Destination
}

// Table returns every reason once, with its outcome and topic. The slice is the caller's.
func Table() []Row {
	rows := []Row{{"", Applied, ToUpdates}, {Duplicate, Passed, ToSkipped}}
	for _, r := range []Reason{
		AmountNotPositive, UnknownAccount, AccountClosed, AccountFrozen, AccountExists, CurrencyMismatch, CloseNotEmpty,
		InsufficientFunds, Overflow,
	} {
		rows = append(rows, Row{r, Rejected, ToUpdates})
	}
	for _, r := range []Reason{
		NullKey, MalformedKey, WrongPartition, FutureTimestamp,
		NullValue, EmptyValue, MalformedJSON, DuplicateName, UnknownName, NullMember, MissingMember, WrongType, UnknownType,
		UnsupportedType, BadID, BadTransition, BadCurrency, AmountNotString, AmountSyntax, AmountDigits, AmountRange,
		NegativeZero, BadTime, KeyMismatch, CloudEventsStructured, CloudEventsInvalid,
		Conflict, OutsideDedupeWindow,
	} {
		rows = append(rows, Row{r, DeadLettered, ToDeadLetters})
	}
	return rows
}
