// Package prometheus shows the decisions of a server in Go to Prometheus. It has only an example, which is in this
// module because of the exporter.
package prometheus
