package ledger_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/tallystick/tallystick/ledger"
)

func TestIDsThatLookLikeOthersAreRefused(t *testing.T) {
	for _, id := range []string{
		"", strings.Repeat("x", 256), strings.Repeat("é", 128),
		"a\x00", "a\tb", "a\n", "\x1f", "a\x7f", "a\u0085b", "a\u009fb",
		" a", "a ", "\u00a0a", "a\u3000", "a\u2003",
		"a\u200bb", "a\ufe0f", "a\u3164", "a\u115fb", "a\u200db", "\ufeffa", "a\u202eb", "a\u2060b", "a\u00adb", "a\u2028b", "a\u2029b",
		"a\U000e0061", "a\u180eb",
		"e\u0301", "\u212b", "\u1112\u1161\u11ab", // decomposed é, the Ångström sign, decomposed Hangul
		"a\xff", "\xc3", "a\xed\xa0\x80",
	} {
		if err := ledger.CheckID(id); err == nil {
			t.Errorf("%+q was accepted", id)
		} else if !utf8.ValidString(err.Error()) || strings.IndexFunc(err.Error(), unicode.IsControl) >= 0 {
			t.Errorf("%+q: the error is not escaped: %q", id, err)
		}
	}
}

func TestOrdinaryIDsAreAccepted(t *testing.T) {
	for _, id := range []string{"a", "EVT-001", "a b", "charge:x", "é", "Zoë", "한글", "口座-7", "\ufffd", "😀", strings.Repeat("x", 255), "a/b\"c\\", "ﬁ"} {
		if err := ledger.CheckID(id); err != nil {
			t.Errorf("%+q: %v", id, err)
		}
	}
}

func FuzzCheckID(f *testing.F) {
	for _, s := range []string{"a", "é", "e\u0301", "\xff", "a\u200b", " a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if ledger.CheckID(id) != nil {
			return
		}
		if !utf8.ValidString(id) || !norm.NFC.IsNormalString(id) || strings.TrimSpace(id) != id || strings.IndexFunc(id, unicode.IsControl) >= 0 || len(id) == 0 || len(id) > 255 {
			t.Errorf("%+q was accepted", id)
		}
	})
}
