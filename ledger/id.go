package ledger

import (
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// MaxID is the largest number of bytes in an id.
const MaxID = 255

// CheckID returns what is wrong with an id: it must have 1 to MaxID bytes of UTF-8 in normal form C, without control or
// invisible characters and without white space around it. Two ids that look alike are then the same bytes, short of
// letters of different scripts. It does not allocate unless it fails.
func CheckID(id string) error {
	if len(id) == 0 || len(id) > MaxID {
		return fmt.Errorf("id of %d bytes: use 1 to %d", len(id), MaxID)
	}
	if err := checkRunes(id); err != nil {
		return fmt.Errorf("id %+q: %w", id, err)
	}
	return nil
}

var (
	errNotUTF8 = errors.New("not UTF-8")
	errSpace   = errors.New("white space around it: trim it")
	errNotNFC  = errors.New("not in Unicode normal form C: compose it")
)

func checkRunes(id string) error {
	if plain(id) {
		return nil
	}
	ascii := true
	for i, r := range id {
		if r < utf8.RuneSelf {
			if r < ' ' || r == 0x7f {
				return fmt.Errorf("control character U+%04X: remove it", r)
			}
			continue
		}
		ascii = false
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(id[i:]); n == 1 {
				return errNotUTF8
			}
		}
		if invisible(r) {
			return fmt.Errorf("invisible character U+%04X: remove it", r)
		}
	}
	if first, _ := utf8.DecodeRuneInString(id); unicode.IsSpace(first) {
		return errSpace
	}
	if last, _ := utf8.DecodeLastRuneInString(id); unicode.IsSpace(last) {
		return errSpace
	}
	if !ascii && !norm.NFC.IsNormalString(id) {
		return errNotNFC
	}
	return nil
}

// plain reports whether id is all printable ASCII without a space, as most are.
func plain(id string) bool {
	for i := range len(id) {
		if id[i] <= ' ' || id[i] >= 0x7f {
			return false
		}
	}
	return true
}

// invisible reports characters that leave no mark or steer the text around them: controls, format characters, line and
// paragraph separators, fillers and variation selectors. Two ids that look the same must be the same.
func invisible(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
