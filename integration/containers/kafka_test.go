package containers

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/kafka"
)

const (
	defaultImage = "apache/kafka:4.4.0"
	engineLimit  = 10 * time.Second // in which an engine answers
	startLimit   = 3 * time.Minute  // pulling the image included; the module itself gives a started broker 60 s
)

// startKafka runs one broker in a container, which ends with the test, and returns its addresses.
func startKafka(t *testing.T) []string {
	t.Helper()
	needEngine(t)
	image := os.Getenv("KAFKA_IMAGE")
	if image == "" {
		image = defaultImage
	}
	var options []testcontainers.ContainerCustomizer
	if !strings.Contains(image, "confluent") {
		options = append(options, apacheLayout())
	}
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	started := time.Now()
	broker, err := kafka.Run(ctx, image, options...)
	// Before err is looked at: a broker that did not get ready is a container, too. Its first process is a shell that ignores
	// the stop signal, so waiting for it loses ten seconds.
	testcontainers.CleanupContainer(t, broker, testcontainers.StopTimeout(0))
	if err != nil {
		t.Fatalf("start %s: %v", image, err)
	}
	seeds, err := broker.Brokers(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s is ready after %v at %v", image, time.Since(started).Round(time.Millisecond), seeds)
	return seeds
}

// apacheLayout lets the module, which knows the entry points of confluentinc/confluent-local alone, start an image as
// apache/kafka and apache/kafka-native want it: Apache's own entry point configures and formats from the same environment.
func apacheLayout() testcontainers.CustomizeRequestOption {
	script := func(name, line string) testcontainers.ContainerFile {
		return testcontainers.ContainerFile{
			ContainerFilePath: "/etc/confluent/docker/" + name,
			Reader:            strings.NewReader("#!/bin/bash\n" + line + "\n"),
			FileMode:          0o755,
		}
	}
	return testcontainers.WithFiles(script("bash-config", ""), script("configure", "exit 0"), script("launch", "exec /etc/kafka/docker/run"))
}

// needEngine skips the test where no container engine answers; with KAFKA_REQUIRED=1 it fails the test.
// testcontainers.SkipIfProviderIsNotHealthy only ever skips.
func needEngine(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), engineLimit)
	defer cancel()
	err := engineHealth(ctx)
	if err == nil {
		return
	}
	if os.Getenv("KAFKA_REQUIRED") == "1" {
		t.Fatalf("KAFKA_REQUIRED=1, and there is no container engine (%v): start Docker or Podman, or set DOCKER_HOST", err)
	}
	t.Skipf("there is no container engine to run a Kafka broker in (%v): start Docker or Podman, or set DOCKER_HOST=unix://… to its socket", err)
}

// engineHealth asks the engine whether it answers. The provider's constructor panics in some releases where it finds no
// socket.
func engineHealth(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	provider, err := testcontainers.NewDockerProvider()
	if err != nil {
		return err
	}
	defer provider.Close()
	return provider.Health(ctx)
}
