package security

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// The lines of acls --commands are run by Kafka's own kafka-acls.sh, through a shell, and grant what acls says: run works with them.
func TestKafkaAclsTakesThePrintedLines(t *testing.T) {
	b := newBank(t)
	must(t, b.admin, nil, "topics", "apply")
	b.feed(t, 1)
	script := must(t, b.admin, nil, "acls", "--for", "run", "--commands", "--principal", "User:job").stdout
	if n := strings.Count(script, "kafka-acls.sh "); n != 7 {
		t.Fatalf("%d lines:\n%s", n, script)
	}
	dir := t.TempDir()
	java := kafkatest.Tool(t, "org.apache.kafka.tools.AclCommand")
	var wrapper strings.Builder
	wrapper.WriteString("#!/bin/sh\nexec")
	for _, word := range java.Args {
		wrapper.WriteString(" '" + word + "'")
	}
	wrapper.WriteString(" \"$@\"\n")
	for name, file := range map[string]struct {
		text string
		mode os.FileMode
	}{"kafka-acls.sh": {wrapper.String(), 0o700}, "admin.properties": {"", 0o600}} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(file.text), file.mode); err != nil {
			t.Fatal(err)
		}
	}
	sh := exec.CommandContext(t.Context(), "sh", "-ec", script)
	sh.Dir, sh.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	var said bytes.Buffer
	sh.Stdout, sh.Stderr = &said, &said
	if err := sh.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, &said)
	}
	b.settle(t, "run", b.printed(t, "run"), true)
	one := start(t, b.as("run"), nil, "--group-instance-id", "one", "--leave")
	one.untilLagIsZero(t, b.admin)
	one.drain(t)
	b.wantNoDenial(t, "run")
}
