// Package kinesis sends events to a Kinesis data stream.
//
// Kinesis charges for each 25 kB of a record, so a record contains as many events as fit. Each event
// is one line of JSON with a line end, so that Firehose can concatenate records. The sink sends a
// batch in one call. It makes up to two more calls for records that the stream throttled. The client
// repeats a call that gets no answer, so an event may arrive twice.
package kinesis
