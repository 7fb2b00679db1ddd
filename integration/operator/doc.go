// Package operator runs the built command against a real Kafka as somebody does who is on call: each test makes one kind of
// trouble, asks the command about it, and gets out of it with what the command says.
//
// Its ports begin at 21600. Every test has a broker of its own, so that what one breaks troubles no other.
package operator
