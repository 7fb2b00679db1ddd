//go:build mutants

package pipelinetest_test

import (
	"strings"
	"testing"

	"github.com/tallystick/tallystick/internal/mutant"
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/pipelinetest"
)

// An engine that breaks its promise does not get past the kit, which passes it as it is.
func TestMutantsOfTheEngineDoNotPassCrash(t *testing.T) {
	crash := func(tb testing.TB) {
		pipelinetest.Crash(tb, func() *pipeline.Pipeline { return bank(none) }, amounts(30), pipelinetest.CrashConfig{})
	}
	crash(t)
	defer mutant.Switch("")
	for name, words := range map[string][]string{
		"offsets-outside-transaction":     {"I2"},
		"no-verification-after-false-nil": {"a crash changes the result", "EndTxn (the commit)", "answered with an unknown error", "expected:", "got:", "the engine broke its promise"},
		"merge-before-commit":             {"a crash changes the result"}, // in its outputs, or I1 stops the task: whichever comes first
	} {
		t.Run(name, func(t *testing.T) {
			mutant.Switch(name)
			said := fails(t, crash)
			for _, w := range words {
				if !strings.Contains(said, w) {
					t.Errorf("it does not say %q but:\n%s", w, said)
				}
			}
		})
	}
}
