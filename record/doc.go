// Package record is the vocabulary of the engine: codecs, headers, positions.
//
// It knows neither Kafka nor state. Every other package may import it.
package record
