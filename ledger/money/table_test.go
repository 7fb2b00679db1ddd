package money

import "testing"

func TestCurrencyTableIsSorted(t *testing.T) {
	if len(currencies)%entryLen != 0 {
		t.Fatalf("%d bytes are not whole entries", len(currencies))
	}
	for at := 0; at < len(currencies); at += entryLen {
		code, digits := currencies[at:at+codeLen], currencies[at+codeLen]
		if at > 0 && code <= currencies[at-entryLen:at-1] {
			t.Errorf("%s is out of order", code)
		}
		if digits < '0' || digits > '0'+maxDigits {
			t.Errorf("%s has %c digits", code, digits)
		}
		if find(code) != at {
			t.Errorf("%s is not found", code)
		}
	}
}
