package money

import (
	"strings"
	"testing"
)

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

// Every code of three letters, and what is next to them: found exactly when it is in the table.
func TestCodesAreFoundAsASearchFromTheStartFindsThem(t *testing.T) {
	const near = "@ABCDEFGHIJKLMNOPQRSTUVWXYZ[az0 "
	for _, a := range near {
		for _, b := range near {
			for _, c := range near {
				code, want := string([]rune{a, b, c}), -1
				for at := 0; at < len(currencies); at += entryLen {
					if strings.HasPrefix(currencies[at:], code) {
						want = at
					}
				}
				if got := find(code); got != want {
					t.Fatalf("%q is found at %d, want %d", code, got, want)
				}
			}
		}
	}
	for _, code := range []string{"", "I", "IN", "INR2", "\xff\xff\xff"} {
		if got := find(code); got != -1 {
			t.Errorf("%q is found at %d", code, got)
		}
	}
}
