package topology

import (
	"bytes"
	"strconv"

	"github.com/tallystick/tallystick/ledger"
	"github.com/tallystick/tallystick/ledger/money"
	"github.com/tallystick/tallystick/record"
)

// Codecs of what the ledger writes. The order of members is fixed: equal values are equal bytes.
type (
	updateCodec  struct{}
	skippedCodec struct{}
	accountCodec struct{}
)

func (updateCodec) ID() string  { return "json" }
func (skippedCodec) ID() string { return "json" }
func (accountCodec) ID() string { return "json" }

func (updateCodec) Decode(src []byte) (ledger.Update, error) {
	return record.JSON[ledger.Update]().Decode(src)
}

func (skippedCodec) Decode(src []byte) (ledger.Skipped, error) {
	return record.JSON[ledger.Skipped]().Decode(src)
}

// Decode reads an account from the store, once per event: first as Append writes it, else as any JSON.
func (accountCodec) Decode(src []byte) (ledger.Account, error) {
	a, ok := decodeAccount(src)
	if !ok {
		var err error
		if a, err = record.JSON[ledger.Account]().Decode(src); err != nil {
			return ledger.Account{}, err
		}
	}
	if err := a.Check(); err != nil { // what was true when it was written must be true when it is read
		return ledger.Account{}, err
	}
	return a, nil
}

func decodeAccount(src []byte) (a ledger.Account, ok bool) {
	c := cutter{rest: src, ok: true}
	code := c.between(`{"currency":"`, '"')
	balance := c.between(`,"balance":"`, '"')
	held := c.between(`,"held":"`, '"')
	minimum := c.between(`,"minimum":"`, '"')
	status := c.between(`,"status":"`, '"')
	version := c.between(`,"version":`, '}')
	currency, err := money.ParseCurrency(code)
	a.Currency, a.Status = currency, knownStatus(status)
	if !c.ok || err != nil || len(c.rest) != 0 || a.Status == "" {
		return a, false
	}
	if a.Balance.UnmarshalText(balance) != nil || a.Held.UnmarshalText(held) != nil {
		return a, false
	}
	if a.Minimum = a.Held; !bytes.Equal(minimum, held) && a.Minimum.UnmarshalText(minimum) != nil { // both are zero, most often
		return a, false
	}
	n, ok := digits(version)
	a.Version = n
	return a, ok
}

// knownStatus returns the constant, so that no string is made; "" for anything else.
func knownStatus(text []byte) ledger.Status {
	switch string(text) {
	case "open":
		return ledger.Open
	case "frozen":
		return ledger.Frozen
	case "closed":
		return ledger.Closed
	}
	return ""
}

// digits reads a version as Append writes it.
func digits(text []byte) (n int64, ok bool) {
	const certain = 18 // decimal digits that always fit
	if len(text) > certain || len(text) > 1 && text[0] == '0' {
		return 0, false
	}
	for _, c := range text {
		if !digit(c) {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, len(text) > 0
}

// cutter takes a text apart that is known in advance but for its values.
type cutter struct {
	rest []byte
	ok   bool
}

// between returns what stands between prefix and the next end.
func (c *cutter) between(prefix string, end byte) []byte {
	if !c.ok || len(c.rest) < len(prefix) || string(c.rest[:len(prefix)]) != prefix {
		c.ok = false
		return nil
	}
	value, rest, found := bytes.Cut(c.rest[len(prefix):], []byte{end})
	c.rest, c.ok = rest, found && bytes.IndexByte(value, '\\') < 0
	return value
}

// parsePosition reads topic/partition/offset, as record.Position prints it.
func parsePosition(text []byte) (p ledger.Position, ok bool) {
	offset := bytes.LastIndexByte(text, '/')
	partition := bytes.LastIndexByte(text[:max(offset, 0)], '/')
	if partition <= 0 {
		return p, false
	}
	n, err := strconv.ParseInt(string(text[partition+1:offset]), 10, 32)
	m, err2 := strconv.ParseInt(string(text[offset+1:]), 10, 64)
	if err != nil || err2 != nil || n < 0 || m < 0 {
		return p, false
	}
	return ledger.Position{Topic: string(text[:partition]), Partition: int32(n), Offset: m}, true
}
