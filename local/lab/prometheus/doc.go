// Package prometheus tests limiter/otellimit with the SDK of OpenTelemetry, and shows the decisions of a server in Go to
// Prometheus. It is in this module because of the SDK and the exporter.
package prometheus
