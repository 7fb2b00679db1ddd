package kafkatest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A toolchain is what a broker is started from.
type toolchain struct {
	java      string
	classpath string // every jar by name: the class archive is valid for exactly this list
}

// need returns the toolchain, or skips the test; with KAFKA_REQUIRED=1 it fails the test.
func need(t testing.TB) toolchain {
	t.Helper()
	tc, err := findToolchain()
	if err == nil {
		return tc
	}
	if os.Getenv("KAFKA_REQUIRED") == "1" {
		t.Fatalf("KAFKA_REQUIRED=1, and %v", err)
	}
	t.Skip(err)
	return toolchain{}
}

func findToolchain() (toolchain, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return toolchain{}, fmt.Errorf("there is no java to run a Kafka broker with: install Java 17 or newer (Debian: apt-get install -y openjdk-17-jre-headless)")
	}
	libs, err := libsFolder()
	if err != nil {
		return toolchain{}, err
	}
	jars, err := filepath.Glob(filepath.Join(libs, "*.jar")) // sorted
	if err != nil || len(jars) == 0 {
		return toolchain{}, fmt.Errorf("there are no Kafka jars in %s: run integration/kafka-libs.sh, or set KAFKA_LIBS to their folder", libs)
	}
	return toolchain{java: java, classpath: strings.Join(jars, ":")}, nil
}

// libsFolder is KAFKA_LIBS, or the folder that kafka-libs.sh fills when it is told none.
func libsFolder() (string, error) {
	if d := os.Getenv("KAFKA_LIBS"); d != "" {
		return filepath.Abs(d)
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no folder for Kafka's jars: set KAFKA_LIBS: %w", err)
		}
		cache = filepath.Join(home, ".cache")
	}
	return filepath.Join(cache, "tallystick", "kafka-libs"), nil
}
