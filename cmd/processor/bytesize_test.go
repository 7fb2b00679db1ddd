package main

import "testing"

func TestSizesAreReadAndWritten(t *testing.T) {
	for text, want := range map[string]byteSize{"512MiB": 512 << 20, "2GiB": 2 << 30, "3KiB": 3 << 10, "1001": 1001, "0": 0} {
		var b byteSize
		if err := b.Set(text); err != nil || b != want || b.String() != text {
			t.Errorf("%s is %d, %s, %v", text, b, b.String(), err)
		}
	}
	for _, bad := range []string{"", "MiB", "-1MiB", "1.5GiB", "512MB", "9000000000GiB"} {
		if b := byteSize(0); b.Set(bad) == nil {
			t.Errorf("%q is %d", bad, b)
		}
	}
}
