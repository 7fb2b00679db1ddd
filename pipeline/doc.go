// Package pipeline declares a stateful stream processor and runs it exactly once on Kafka.
//
// A Pipeline is an application: its id is the consumer group and the prefix of its own topics. A Stage is a set of
// co-partitioned inputs with the stores they share (Kafka Streams: a sub-topology). Partition i of a stage's inputs is one
// Task. Everything a handler does (outputs, store writes, dead letters) and the offset of the record it handled become
// visible in one Kafka transaction or not at all.
//
// What the guarantee covers, and where it stops, is in docs/eos-boundaries.md.
package pipeline
