// Package devbroker is a Kafka broker inside this process, for the demo and for tests: kfake behind a small door.
//
// It speaks the protocol, transactions and consumer groups included, and keeps everything in memory: when the process ends,
// everything is gone.
//
// It is no evidence for what only a real broker does, so no claim rests on it alone: durability, and a broker that dies; the order and
// delay of transaction markers (here a commit is visible in all partitions at once); compaction; validation of produced records
// (time stamps far ahead, records without a key on a compacted topic) and of topic configs; access control; what happens to
// a transaction that timed out and to an expired transactional id; fencing (a fenced session can un-fence itself); static
// members of the consumer protocol. Each of these is tested on Apache Kafka.
package devbroker
