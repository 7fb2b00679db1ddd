// Package stream is the DSL: operators in the words of Kafka Streams that build a stage's handlers. It stands on what pipeline
// exports, so that operators and plain handlers mix in one pipeline, also in one stage, and what pipeline guarantees holds
// for both.
//
// A [Stream] begins at a topic ([From]), goes through operators, and ends in topics ([Stream.To]). Operators that keep the types are
// methods; those that add a type are functions, as Go wants it. All operators of a stage run within the record that entered it, in one
// savepoint: an error of the last undoes what the first has stored.
//
// # Functions
//
// The functions given to operators are handlers in small: they depend on their arguments alone (no clock, no randomness, no
// network), because a record is processed again after an abort. One that returns an error fails the record, and
// pipeline.DeadLetter sends it to the dead letters; the error names the operator, see [pipeline.Pipeline.Describe].
//
// # Keys
//
// State is where the key is: the records of one key are on one partition, and its task has its rows. [Map] changes keys, but moves no
// record. So [Count], [Aggregate], [Join] and [LeftJoin] refuse its stream, by name, when the pipeline is validated: [GroupBy]
// comes between. Kafka Streams would repartition by itself there. Here it is written down, because a repartition is a topic
// with a name, that operators see and that must not change when an operator is added before it, with codecs, and with one more
// transaction on the way.
//
// # Nulls
//
// A record without a key is a dead letter before any operator (null_key); Kafka Streams drops it where it meets one. A null value is what
// the topic's codec makes of it: record.String "", record.JSON a dead letter. Wrap the codec in record.Nullable where null has a meaning: the
// value is then a record.Optional, and operators treat it as any other value, where Kafka Streams' aggregations skip it:
// filter it. [TableOf] needs no such codec: a null deletes the row.
//
// # Time and headers
//
// A record keeps its timestamp through all operators. Its headers are seen by the functions and end there: To and GroupBy
// write none.
package stream
