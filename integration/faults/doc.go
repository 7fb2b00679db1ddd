// Package faults runs the ledger on Apache Kafka under kills, freezes, the loss of its broker, a full
// disk and scaling, and lets the verify command and an independent sum judge what is left.
//
// The processors are processes of the command's own binary. The test sees what they do only from
// outside: their commits from the applied markers in the state topic, their open transactions from
// the broker.
package faults
