package kafkatest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Tool is one of Kafka's own command line tools by its main class, as kafka-acls.sh and its like start it. Their jar is no part of
// a broker: kafka-libs.sh puts it into a folder of its own. Without it the test skips, or fails with KAFKA_REQUIRED=1.
func Tool(t testing.TB, class string, args ...string) *exec.Cmd {
	t.Helper()
	tc := need(t)
	first, _, _ := strings.Cut(tc.classpath, ":")
	for _, dir := range []string{filepath.Dir(first), filepath.Join(filepath.Dir(first), "tools")} {
		if found, err := filepath.Glob(filepath.Join(dir, "kafka-tools-[0-9]*.jar")); err == nil && len(found) > 0 {
			tc.classpath += ":" + found[0]
			return tc.command(nil, class, args...)
		}
	}
	const missing = "there is no kafka-tools jar beside Kafka's others: run integration/kafka-libs.sh"
	if os.Getenv("KAFKA_REQUIRED") == "1" {
		t.Fatal("KAFKA_REQUIRED=1, and " + missing)
	}
	t.Skip(missing)
	return nil
}
