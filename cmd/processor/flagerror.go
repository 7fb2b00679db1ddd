package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
)

// flagWords say what a flag of each type of the library's takes.
var flagWords = map[string]string{
	"int":        "not a whole number",
	"int32":      "not a whole number of 32 bits",
	"int64":      "not a whole number",
	"uint64":     "not a whole number, 0 or more",
	"int32Slice": "not whole numbers separated by commas",
	"float64":    "not a number",
	"duration":   "not a duration with its unit, such as 40s or 5m",
	"bool":       "neither true nor false",
}

// inWords says of a flag's value what is wrong with it, where the library would show the words of Go's number reader.
func inWords(err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return err
	}
	words := flagWords[bad.GetFlag().Value.Type()]
	if words == "" {
		words = errors.Unwrap(bad).Error()
	}
	return fmt.Errorf("--%s %q: %s", bad.GetFlag().Name, bad.GetValue(), words)
}
