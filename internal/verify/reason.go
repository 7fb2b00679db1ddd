package verify

import "math/bits"

// reason is a word that an outcome can give: why an event is a dead letter, or why it was rejected.
type reason uint8

// The reasons for dead letters, then those for rejections, in the order of reason.String.
const (
	conflict reason = iota
	outsideWindow
	futureTimestamp
	wrongPartition
	nullKey
	nullValue
	emptyValue
	malformedKey
	malformedJSON
	duplicateName
	unknownName
	nullMember
	missingMember
	wrongType
	amountNotString
	amountSyntax
	amountDigits
	amountRange
	negativeZero
	badCurrency
	keyMismatch
	badID
	badTime
	badTransition
	unknownType
	unsupportedType
	cloudEventsStructured
	cloudEventsInvalid
	amountNotPositive
	insufficientFunds
	currencyMismatch
	unknownAccount
	accountFrozen
	accountClosed
	overflow
	closeNotEmpty
	accountExists
	reasonCount
)

func (r reason) String() string {
	return [reasonCount]string{
		"conflict", "outside_dedupe_window", "future_timestamp", "wrong_partition", "null_key", "null_value", "empty_value",
		"malformed_key", "malformed_json", "duplicate_name", "unknown_name", "null_member", "missing_member", "wrong_type",
		"amount_not_string", "amount_syntax", "amount_digits", "amount_range", "negative_zero", "bad_currency", "key_mismatch",
		"bad_id", "bad_time", "bad_transition", "unknown_type", "unsupported_type", "cloudevents_structured",
		"cloudevents_invalid", "amount_not_positive", "insufficient_funds", "currency_mismatch", "unknown_account",
		"account_frozen", "account_closed", "overflow", "close_not_empty", "account_exists",
	}[r]
}

// parseReason finds the reason of a word.
func parseReason(word []byte) (reason, bool) {
	for r := range reasonCount {
		if r.String() == string(word) {
			return r, true
		}
	}
	return 0, false
}

// reasons is a set of reasons. All that hold are collected, because the order of the processor's checks is not ours.
type reasons uint64

func set(rs ...reason) (s reasons) {
	for _, r := range rs {
		s |= 1 << r
	}
	return s
}

func (s reasons) has(r reason) bool { return s&(1<<r) != 0 }

func (s reasons) String() string {
	if s == 0 {
		return "none"
	}
	text := ""
	for ; s != 0; s &= s - 1 {
		if text != "" {
			text += " or "
		}
		text += reason(bits.TrailingZeros64(uint64(s))).String()
	}
	return text
}
