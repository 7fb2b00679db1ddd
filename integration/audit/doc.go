// Package audit puts processor verify beside a job on a real Kafka: round after round while processes are killed, over inputs
// that retention took, and over transactions that a broker committed in part.
//
// Its ports begin at 23000.
package audit
