package money

import (
	"errors"
	"fmt"
)

// Currency is a code of ISO 4217 that this package knows. The zero value is no currency.
type Currency string

// ErrCurrency says that a code is not in the table.
var ErrCurrency = errors.New("unknown currency")

const (
	codeLen  = 3
	entryLen = codeLen + 1
)

// currencies is ISO 4217's list of funds and currencies in use, sorted, each code followed by its digits after the point,
// and of those withdrawn the ones that books of this decade still carry: ANG, BGN, CUC, HRK, SLL, ZWL. Codes without a
// minor unit (gold, testing, XXX) are not money here. The table is our own because libraries disagree: ISK has 0 digits
// since 2007, XCG replaced ANG in 2025, BGN ended in 2026.
const currencies = "" +
	"AED2AFN2ALL2AMD2ANG2AOA2ARS2AUD2AWG2AZN2BAM2BBD2BDT2BGN2BHD3BIF0BMD2BND2BOB2BOV2" +
	"BRL2BSD2BTN2BWP2BYN2BZD2CAD2CDF2CHE2CHF2CHW2CLF4CLP0CNY2COP2COU2CRC2CUC2CUP2CVE2" +
	"CZK2DJF0DKK2DOP2DZD2EGP2ERN2ETB2EUR2FJD2FKP2GBP2GEL2GHS2GIP2GMD2GNF0GTQ2GYD2HKD2" +
	"HNL2HRK2HTG2HUF2IDR2ILS2INR2IQD3IRR2ISK0JMD2JOD3JPY0KES2KGS2KHR2KMF0KPW2KRW0KWD3" +
	"KYD2KZT2LAK2LBP2LKR2LRD2LSL2LYD3MAD2MDL2MGA2MKD2MMK2MNT2MOP2MRU2MUR2MVR2MWK2MXN2" +
	"MXV2MYR2MZN2NAD2NGN2NIO2NOK2NPR2NZD2OMR3PAB2PEN2PGK2PHP2PKR2PLN2PYG0QAR2RON2RSD2" +
	"RUB2RWF0SAR2SBD2SCR2SDG2SEK2SGD2SHP2SLE2SLL2SOS2SRD2SSP2STN2SVC2SYP2SZL2THB2TJS2" +
	"TMT2TND3TOP2TRY2TTD2TWD2TZS2UAH2UGX0USD2USN2UYI0UYU2UYW4UZS2VED2VES2VND0VUV0WST2" +
	"XAD2XAF0XCD2XCG2XOF0XPF0YER2ZAR2ZMW2ZWG2ZWL2"

// ParseCurrency returns the currency of a code, or ErrCurrency. Lower case is refused: a code has one spelling. It does
// not allocate, and the result does not alias code.
func ParseCurrency[T ~string | ~[]byte](code T) (Currency, error) {
	if i := find(code); i >= 0 {
		return Currency(currencies[i : i+codeLen]), nil
	}
	return "", fmt.Errorf("%w %.12q: use an upper-case ISO 4217 code that has a minor unit, as EUR or JPY", ErrCurrency, code)
}

// Digits returns how many digits amounts of c have after the point: 0 to 4. It is 0 for a currency that ParseCurrency did
// not return.
func (c Currency) Digits() int {
	i := find(c)
	if i < 0 {
		return 0
	}
	return int(currencies[i+codeLen] - '0')
}

// find returns where the entry of a code begins; -1 when there is none. It is asked several times per event.
func find[T ~string | ~[]byte](code T) int {
	if len(code) != codeLen || !letter(code[0]) || !letter(code[1]) {
		return -1
	}
	for at := int(begins[pair(code[0], code[1])]) * entryLen; at < len(currencies); at += entryLen {
		switch {
		case currencies[at] != code[0] || currencies[at+1] != code[1]:
			return -1
		case currencies[at+2] == code[2]:
			return at
		}
	}
	return -1
}

const letters = 'Z' - 'A' + 1

func letter(b byte) bool { return b >= 'A' && b <= 'Z' }

func pair(first, second byte) int { return int(first-'A')*letters + int(second-'A') }

// begins holds, for each pair of letters, the number of the first entry that begins with it; the number of entries when none
// does.
var begins = func() (b [letters * letters]uint8) {
	const entries = len(currencies) / entryLen
	for i := range b {
		b[i] = uint8(entries)
	}
	for n := entries - 1; n >= 0; n-- {
		b[pair(currencies[n*entryLen], currencies[n*entryLen+1])] = uint8(n)
	}
	return b
}()
