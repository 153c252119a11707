// Package kafka sends events to a Kafka topic.
//
// Each event is one message without a key. A batch goes to one partition, and the batches use all
// partitions in turn. The environment and the sequence number in an event define the order. The
// leader of the partition acknowledges a batch. If the leader fails before it has replicated a
// batch, that batch is lost without an error.
//
// The sink opens connections when it needs them. It replaces a connection that has died, for
// example while Lambda had frozen the process, and sends the unacknowledged messages again. An
// event may therefore arrive twice.
package kafka
