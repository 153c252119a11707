// Package kinesis sends events to a Kinesis data stream.
//
// Kinesis asks money for each 25 kB of a record, so a record has as many events as fit: lines of
// JSON, each with its end, which Firehose can put one after another. A batch is one call, and up to two
// more for the records that the stream throttled. A call whose answer is lost is made again: its
// events may come twice.
package kinesis
