// Package pipelinetest tests a pipeline without a Kafka cluster: on a Driver, and under crashes.
//
// A Driver needs no broker, no goroutine and no waiting. It holds topics in memory and runs the pipeline's own tasks over them.
// Each Send is one transaction: it is processed,
// sealed and merged as the engine does it, what it wrote to other stages' inputs is processed too, and everything is done
// when Send returns. Time stands still unless the test moves it, so a test gives the same result each time.
//
// What a driver cannot show is what Kafka does; it does show what a commit, an abort and a restore do to the pipeline:
// Abort runs transactions twice and compares, Restart replays all state from its records.
//
// Crash runs whole processes of the pipeline on an embedded broker, strikes them at each step of the commit protocol, and
// compares what they leave with what an undisturbed run leaves. It finds handlers that are no function of their record, the stores
// and the record's time. The embedded broker is no evidence for what only a real one does: durability, markers that are late,
// compaction, refused records, access control.
package pipelinetest
