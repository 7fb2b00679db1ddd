package verify

import "strings"

// currency is an ISO 4217 code; the zero value is none.
type currency [3]byte

func (c currency) String() string {
	if c == (currency{}) {
		return ""
	}
	return string(c[:])
}

// The codes of ISO 4217 by digits after the point, with those withdrawn that ledgers of this decade still carry. It is a
// second list on purpose, written down apart from the processor's.
const (
	noDigits    = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
	threeDigits = "BHD IQD JOD KWD LYD OMR TND"
	fourDigits  = "CLF UYW"
	twoDigits   = "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BOV BRL BSD BTN BWP BYN BZD " +
		"CAD CDF CHE CHF CHW CNY COP COU CRC CUC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ " +
		"GYD HKD HNL HRK HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT " +
		"MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR " +
		"SDG SEK SGD SHP SLE SLL SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED VES " +
		"WST XAD XCD XCG YER ZAR ZMW ZWG ZWL"
)

// parseCurrency returns the code and its digits; ok is false for a text that is no code in upper case.
func parseCurrency(text []byte) (c currency, digits int, ok bool) {
	if len(text) != len(c) {
		return c, 0, false
	}
	for _, b := range text {
		if b < 'A' || b > 'Z' {
			return c, 0, false
		}
	}
	digits, ok = digitsOf(string(text))
	return currency(text), digits, ok
}

// digitsOf looks a code of three capital letters up; the commonest list comes first.
func digitsOf(code string) (digits int, ok bool) {
	switch {
	case strings.Contains(twoDigits, code):
		return 2, true
	case strings.Contains(noDigits, code):
		return 0, true
	case strings.Contains(threeDigits, code):
		return 3, true
	case strings.Contains(fourDigits, code):
		return 4, true
	}
	return 0, false
}

func (c currency) digits() int {
	digits, _ := digitsOf(string(c[:]))
	return digits
}
