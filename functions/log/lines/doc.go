// Package lines is the function behind the subscriptions of logs. CloudWatch Logs invokes it with lines of the logs of
// other functions and of the access log of a REST API:
//
//   - A line of a decision or a notice (package telemetry) goes to a [Sender], which is Kafka.
//   - A line of the access log charges limits of its request. Back ends invoke the function directly for that.
//
// If a call fails, the function fails, and Lambda repeats the event twice. So a line can arrive more than once. A line that
// CloudWatch Logs cannot deliver is still in the log.
//
// Nothing outside imports this folder but the local gateway, so a deployment without it needs only its rules and its logs.
package lines
