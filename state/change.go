package state

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tallystick/tallystick/internal/mutant"
)

// wayOut ends each refusal of a change: there are exactly three.
const wayOut = "revert the change; or start over (`processor reset plan` lists what that deletes); or choose a new application.id, which starts from nothing"

// CheckFingerprint compares the text that state was written under with the running program's. It returns nil when the
// program may use the state: nothing changed; a store or an input was added; a store without keys or an input that was read to
// its end was dropped; a window widened; a value codec extended ("json" to "json+v2", "json+v2" to "json+v3"). Else the error
// names each line that changed and the ways out.
//
// The texts cannot tell all. keys counts the live keys of stores that the program does not declare (Base.Orphans). unread
// counts the records of an input that the stage no longer has and never applied; its error says that nobody knows.
func CheckFingerprint(old, new string, keys map[string]int, unread func(input string) (int64, error)) error {
	was, err := parseTopology(old)
	if err != nil {
		return err
	}
	is, err := parseTopology(new)
	if err != nil {
		return err
	}
	errs := []error{checkStage(was.stage, is.stage, unread), checkPartitioner(was.partitioner, is.partitioner)}
	for _, name := range slices.Sorted(maps.Keys(was.stores)) {
		errs = append(errs, checkStore(name, was.stores[name], is.stores[name], keys[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		if was.stores[name].text == "" { // no marker tells of it: it would be orphaned all the same
			errs = append(errs, fmt.Errorf("the state topic holds %d keys of store %q, which neither its marker nor this program knows: %s", keys[name], name, wayOut))
		}
	}
	return errors.Join(errs...)
}

func refuse(was, is, why string) error {
	if is == "" {
		is = "(gone)"
	}
	return fmt.Errorf("topology changed: was %q, is %q: %s: %s", was, is, why, wayOut)
}

func checkStage(was, is stageLine, unread func(string) (int64, error)) error {
	switch {
	case was.name != is.name:
		return refuse(was.text, is.text, "the state belongs to another stage")
	case was.partitions != is.partitions:
		return refuse(was.text, is.text, "another partition count moves keys to other tasks, away from their state")
	}
	for _, in := range was.inputs {
		if slices.Contains(is.inputs, in) {
			continue
		}
		if why := dropped(in, unread); why != "" {
			return refuse(was.text, is.text, why)
		}
	}
	return nil
}

// dropped says why an input must not be dropped, "" if it may.
func dropped(input string, unread func(string) (int64, error)) string {
	n, err := unread(input)
	switch {
	case err != nil:
		return fmt.Sprintf("input %q was dropped, and nobody knows whether it was read to its end (%v)", input, err)
	case n > 0 && !mutant.On("input-dropped-unread"):
		return fmt.Sprintf("input %q was dropped with %d records that were never applied: they would be lost; run the old version until `lag` says that it has read them", input, n)
	}
	return ""
}

// checkPartitioner refuses what no record would show: writer and reader of a repartition topic agree on any partitioner.
func checkPartitioner(was, is string) error {
	if was == "" || is == "" || was == is {
		return nil
	}
	return refuse(was, is, "another partitioner moves keys to other tasks, away from their state")
}

func checkStore(name string, was, is storeLine, keys int) error {
	switch {
	case is.text == "" && keys == 0:
		return nil
	case is.text == "":
		return refuse(was.text, is.text, fmt.Sprintf("store %q was removed or renamed, or a newer version of the program added it: its %d keys would be orphaned; a version that deletes them makes it removable", name, keys))
	case was.kind != is.kind:
		return refuse(was.text, is.text, "a store cannot change its kind")
	case was.key != is.key && !mutant.On("key-codec-changed"):
		return refuse(was.text, is.text, "another key codec would not find the keys that are there")
	case was.value != is.value && extends(is.value, was.value):
		return refuse(was.text, is.text, "a newer version of the program wrote these values: run that version")
	case was.value != is.value && !extends(was.value, is.value):
		return refuse(was.text, is.text, fmt.Sprintf("values of codec %q cannot be read by %q; a codec that reads both is called %q (record.Versioned)", was.value, is.value, following(was.value)))
	case is.window < was.window && !mutant.On("window-narrowed"):
		return refuse(was.text, is.text, "a narrower window forgets ids that may still be redelivered")
	}
	return nil
}

// extends reports whether the codec is reads what the codec was wrote: its id adds to the other's, or has a higher version.
func extends(was, is string) bool {
	wasBase, wasVersion := version(was)
	isBase, isVersion := version(is)
	return strings.HasPrefix(is, was+"+") || wasBase == isBase && isVersion > wasVersion
}

var versionRule = regexp.MustCompile(`^(.+)\+v([1-9][0-9]{0,2})$`)

// version splits the id of a record.Versioned; any other has version 1.
func version(id string) (base string, n int) {
	m := versionRule.FindStringSubmatch(id)
	if m == nil {
		return id, 1
	}
	n, _ = strconv.Atoi(m[2]) // three digits at most
	return m[1], n
}

// following is the id of the codec that would read one more form.
func following(id string) string {
	base, n := version(id)
	return fmt.Sprintf("%s+v%d", base, n+1)
}
