package main

import (
	"fmt"
	"strconv"
	"strings"
)

// byteSize is a flag's number of bytes: digits, and KiB, MiB or GiB.
type byteSize int64

var byteUnits = []struct {
	name string
	size int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// String, Set and Type make it a flag.
func (b *byteSize) String() string {
	for _, u := range byteUnits {
		if *b != 0 && int64(*b)%u.size == 0 {
			return strconv.FormatInt(int64(*b)/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(*b), 10)
}

// Set reads a size.
func (b *byteSize) Set(text string) error {
	digits, size := text, int64(1)
	for _, u := range byteUnits {
		if before, ok := strings.CutSuffix(text, u.name); ok {
			digits, size = before, u.size
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > (1<<62)/size {
		return fmt.Errorf("%q is no size: use 512MiB, 2GiB or a number of bytes", text)
	}
	*b = byteSize(n * size)
	return nil
}

// Type is its name in the help.
func (b *byteSize) Type() string { return "size" }
