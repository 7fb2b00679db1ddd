package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tallystick/tallystick/pipeline"
)

// exitCode is the command's answer to a script. The numbers are part of the interface and never change.
type exitCode int

const (
	exitOK          exitCode = 0
	exitFailed      exitCode = 1   // the command could not do what it was asked
	exitUsage       exitCode = 2   // wrong flags, arguments or configuration; or a plan with changes pending
	exitCheckFailed exitCode = 3   // verify found a violation
	exitNotFound    exitCode = 4   // the topic, key or group does not exist
	exitUnavailable exitCode = 5   // the broker cannot be reached or could not answer; trying again may help
	exitInterrupted exitCode = 130 // stopped by a signal before it was done
)

// failure is an error with its exit code and a hint: what to do now, in one sentence.
type failure struct {
	code exitCode
	err  error
	hint string
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// fail gives err an exit code and a hint; an empty hint prints no hint line. It returns nil for a nil err.
func fail(code exitCode, err error, hint string) error {
	if err == nil {
		return nil
	}
	return &failure{code, err, hint}
}

// usageErrorf is a mistake in flags or arguments: exit 2, with a pointer to the help.
func usageErrorf(format string, args ...any) error {
	return fail(exitUsage, fmt.Errorf(format, args...), "see --help")
}

// silent is an exit code without a message: the command's own output already said it (changes pending, a failed check).
func silent(code exitCode) error { return &failure{code: code, err: errSilent} }

var errSilent = errors.New("the output says it")

// exitOf prints err, once, and returns the code to exit with. ctx tells whether a signal ended the work. colour makes the
// word error red.
func exitOf(ctx context.Context, stderr io.Writer, err error, colour bool) exitCode {
	if err == nil {
		return exitOK
	}
	f := classify(ctx, err)
	if !errors.Is(err, errSilent) {
		fmt.Fprintf(stderr, "%s %s\n", red("error:", colour), indent(f.Error()))
		if f.hint != "" {
			fmt.Fprintf(stderr, "hint: %s\n", indent(f.hint))
		}
	}
	return f.code
}

func red(s string, colour bool) string {
	if !colour {
		return s
	}
	return "\x1b[31m" + s + "\x1b[0m"
}

// classify finds the failure in err, or makes one from what is known about the error.
func classify(ctx context.Context, err error) *failure {
	if i := (interruptedError{}); errors.As(context.Cause(ctx), &i) && errors.Is(err, context.Canceled) && !errors.Is(err, pipeline.ErrNotDrained) {
		return &failure{exitInterrupted, i, ""}
	}
	f := (*failure)(nil)
	if errors.As(err, &f) {
		return &failure{f.code, err, f.hint}
	}
	code, hint := diagnose(err)
	return &failure{code, err, hint}
}

// indent keeps the lines of a multi-line message together under its first one.
func indent(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n  ") }
