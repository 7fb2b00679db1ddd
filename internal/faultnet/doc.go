// Package faultnet is the network between one process and its brokers, for tests: a dialer whose connections see whole Kafka
// requests and can lose them, lose their answers, hold them back, change them, or stand still.
//
// It works on the client's side, in fake time (internal/simulation) as in real time (pipelinetest), and knows nothing of what
// is tested. The client writes one whole request at a time; its length, key, version and correlation id stand in the first
// twelve bytes. A cut connection looks like one that a peer reset: a Kafka client takes other errors for fatal.
package faultnet
