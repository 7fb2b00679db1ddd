package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestCompletionOffersTheJobsOwnNames(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"tail ''", "ledger-post-state"},
		{"feed --topic ''", "credit-events"},
		{"query ''", "accounts"},
		{"run --partitioner ''", "crc32"},
		{"run --security-protocol ''", "SASL_SSL"},
		{"lag -o ''", "jsonl"},
	} {
		cli, stdout, _ := newTestCLI()
		args := append([]string{"__complete"}, strings.Fields(strings.ReplaceAll(c.line, "''", ""))...)
		cli.execute(t.Context(), append(args, ""))
		if !strings.Contains(stdout.String(), c.want) {
			t.Errorf("%s: no %q in\n%s", c.line, c.want, stdout)
		}
	}
	cli, stdout, _ := newTestCLI("PROCESSOR_APPLICATION_ID=bank")
	cli.execute(t.Context(), []string{"__complete", "tail", ""})
	if !strings.Contains(stdout.String(), "bank-post-state") {
		t.Errorf("the configuration's own names are not offered:\n%s", stdout)
	}
}

func TestCompletionScriptsAreForEveryShell(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		c, stdout, stderr := newTestCLI()
		if code := c.execute(t.Context(), []string{"completion", shell}); code != exitOK || !strings.Contains(stdout.String(), "processor") || stderr.Len() > 0 {
			t.Errorf("%s: exit %d, %d bytes, %s", shell, code, stdout.Len(), stderr)
		}
	}
	for _, args := range [][]string{{"completion", "tcsh"}, {"completion", "bash", "-o", "json"}, {"completion", "bash", "x"}} {
		c, stdout, stderr := newTestCLI()
		if code := c.execute(t.Context(), args); code != exitUsage || stdout.Len() > 0 {
			t.Errorf("%q: exit %d: %s", args, code, stderr)
		}
	}
}

// bashCompletion stands for the two things that the script takes from the package bash-completion, and for what bash allows
// only while somebody types.
const bashCompletion = `_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur="${words[cword]}"; prev="${words[cword-1]}"; }
__ltrim_colon_completions() { :; }
compopt() { :; }
`

// The script itself, run by bash as it does when a person presses the tabulator key.
func TestBashCompletes(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is missing: install it (apt-get install bash) to run its completion script")
	}
	for line, want := range map[string]string{
		"processor query acc":                "accounts",
		"processor tail ledger-u":            "ledger-updates",
		"processor run --partitioner mur":    "murmur2",
		"processor topics ap":                "apply",
		"processor run --bootstrap-s":        "--bootstrap-servers",
		"processor lag --security-protocol ": "PLAINTEXT",
	} {
		words := strings.Split(line, " ")
		script := bashCompletion + `source <(processor completion bash)
COMP_LINE="$1"; COMP_POINT=${#COMP_LINE}; shift
COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); COMP_TYPE=9; COMP_KEY=9
__start_processor
printf '%s\n' "${COMPREPLY[@]}"`
		cmd := exec.CommandContext(t.Context(), bash, append([]string{"--norc", "-c", script, "bash", line}, words...)...)
		cmd.Env = []string{"PATH=" + filepath.Dir(binary(t)) + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + t.TempDir()}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s completes to %q, want %q (%v)", line, out, want, err)
		}
	}
}
