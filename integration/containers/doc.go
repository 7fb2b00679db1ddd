// Package containers runs the command against Apache Kafka in a container, started by
// testcontainers-go's kafka module: the set-up that users of both know.
//
// KAFKA_IMAGE picks the image, apache/kafka:4.4.0 unless set; the engine pulls it. Without an engine
// the test skips and says why; with KAFKA_REQUIRED=1 it fails instead. CI has no registry: .ci/engine
// starts an engine where none answers, and image.sh builds an image with the layout of apache/kafka.
//
// What happens to brokers under faults is tested on child processes (package kafkatest), which a test
// can kill and stop; a container shows that nothing depends on those.
package containers
