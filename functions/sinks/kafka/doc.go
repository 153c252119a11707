// Package kafka sends events to a Kafka topic.
//
// Each event is one message without a key. All events of a batch go to one partition, and consecutive
// batches go to different partitions. The environment and the sequence number in an event define the
// order. The leader of the partition acknowledges a batch. If the leader fails before it has
// replicated a batch, that batch is lost without an error.
//
// The sink opens connections when it needs them. It replaces a dead connection, for example after
// Lambda froze the process, and sends the unacknowledged messages again. An event may therefore
// arrive twice.
package kafka
