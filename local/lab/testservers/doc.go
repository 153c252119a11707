// Package testservers fetches and starts what only tests need: Apache Kafka, a Docker engine, the SAM
// CLI that uses the engine, a browser, and clients of Lambda's runtimes. Package servers has the servers
// of a local run.
package testservers
