// Package sinks opens the destination of decision events: a topic of Apache Kafka or a data stream of
// Amazon Kinesis. It is not part of package boot, so that programs without events link neither
// client.
package sinks
