// Package kinesis sends events to a Kinesis data stream.
//
// Kinesis charges for each 25 kB of a record, so a record contains as many events as fit. Each
// event is one line of JSON with a line end, so Firehose can concatenate records. A batch is one
// call, and up to two more for the records that the stream throttled. The client repeats a call
// whose answer is lost, so an event may arrive twice.
package kinesis
