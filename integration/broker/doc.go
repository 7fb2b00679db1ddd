// Package broker tests what the engine relies on in Apache Kafka and in the client, and what the
// embedded broker of the other tests gives no evidence for: there a wrong engine would pass.
//
// Each test is named after its claim. None of them runs the engine: when one fails after an upgrade
// of Kafka or of the client, a rule of the engine has lost its reason or has become too weak.
package broker
