package state

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// wayOut ends each refusal: there are exactly three.
const wayOut = "revert the change, or choose a new application.id, which starts from nothing"

// CheckFingerprint compares the text that state was written under with the running program's. It returns nil when the
// program may use the state: nothing changed, a store or an input was added, a window widened, a value codec extended
// ("json" to "json+v2"). Else the error names each line that changed and the ways out. A removed store is refused whether or
// not it has keys, and a dropped input whether or not it was read to its end: the texts cannot tell.
func CheckFingerprint(old, new string) error {
	if old == new {
		return nil
	}
	was, err := parseTopology(old)
	if err != nil {
		return err
	}
	is, err := parseTopology(new)
	if err != nil {
		return err
	}
	errs := []error{checkStage(was.stage, is.stage)}
	for _, name := range slices.Sorted(maps.Keys(was.stores)) {
		errs = append(errs, checkStore(name, was.stores[name], is.stores[name]))
	}
	return errors.Join(errs...)
}

func refuse(was, is, why string) error {
	if is == "" {
		is = "(gone)"
	}
	return fmt.Errorf("topology changed: was %q, is %q: %s: %s", was, is, why, wayOut)
}

func checkStage(was, is stageLine) error {
	switch {
	case was.name != is.name:
		return refuse(was.text, is.text, "the state belongs to another stage")
	case was.partitions != is.partitions:
		return refuse(was.text, is.text, "another partition count moves keys to other tasks, away from their state")
	}
	for _, in := range was.inputs {
		if !slices.Contains(is.inputs, in) {
			return refuse(was.text, is.text, fmt.Sprintf("input %q was dropped, what is unread of it would be lost", in))
		}
	}
	return nil
}

func checkStore(name string, was, is storeLine) error {
	switch {
	case is.text == "":
		return refuse(was.text, is.text, fmt.Sprintf("store %q was removed or renamed, or a newer version of the program added it: its keys would be orphaned", name))
	case was.kind != is.kind:
		return refuse(was.text, is.text, "a store cannot change its kind")
	case was.key != is.key:
		return refuse(was.text, is.text, "another key codec would not find the keys that are there")
	case strings.HasPrefix(was.value, is.value+"+"):
		return refuse(was.text, is.text, "a newer version of the program wrote these values: run that version")
	case was.value != is.value && !strings.HasPrefix(is.value, was.value+"+"):
		return refuse(was.text, is.text, fmt.Sprintf("values of codec %q cannot be read by %q; a codec that reads both is called %q", was.value, is.value, was.value+"+…"))
	case is.window < was.window:
		return refuse(was.text, is.text, "a narrower window forgets ids that may still be redelivered")
	}
	return nil
}
