// Package pipelinetest drives a pipeline in a test: no broker, no goroutine, no waiting.
//
// A Driver holds topics in memory and runs the pipeline's own tasks over them. Each Send is one transaction: it is processed,
// sealed and merged as the engine does it, what it wrote to other stages' inputs is processed too, and everything is done
// when Send returns. Time stands still unless the test moves it, so a test gives the same result each time.
//
// What a driver cannot show is what Kafka does; it does show what a commit, an abort and a restore do to the pipeline:
// Abort runs transactions twice and compares, Restart replays all state from its records.
package pipelinetest
