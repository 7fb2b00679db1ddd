// Package kafkatest runs real Apache Kafka brokers as child processes of a test.
//
// A broker is ready in about a second: its storage is formatted once and copied, its classes come
// from a shared archive, and both live in the user's cache folder. One or three brokers, each a
// broker and a controller of its own (KRaft, combined roles), can be killed, stopped, continued and
// started again by the test; a proxy between them, or between one process and all of them, can lose, hold, change and delay
// requests and answers of chosen kinds. A broker's disk can be one of its own, to be filled.
//
// What it needs is Java 17 and Kafka's jars: KAFKA_LIBS names their folder, else the one that
// kafka-libs.sh fills by default is used. A test that needs no control over the broker's process
// takes [Seeds], which prefers KAFKA_BROKERS. Where something is missing the test skips and says
// which command brings it; with KAFKA_REQUIRED=1 it fails instead, so that CI cannot pass with
// nothing run.
//
// Ports are fixed and lie below 32768, where the kernel takes no port for outgoing connections: a
// client that dials a dead broker's port inside that range can connect to itself and hold the port,
// and the broker then cannot come back. Each test package has 200 ports of its own:
//
//	21000  broker
//	21200  faults
//	21400  kafkatest
//	21800  security
//	22000  bench
//	22400  inputs
//	22600  campaign
//	22800  unknown
//	23000  audit
//	24000  soak
//
// Linux and macOS; on Linux a broker also dies with the test binary.
package kafkatest
