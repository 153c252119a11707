// Package sinks opens the destination of decision events that a configuration names: a topic of
// Apache Kafka or a data stream of Amazon Kinesis. It is separate from package boot so that
// programs without events link neither client.
package sinks
