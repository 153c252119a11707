// Package servers fetches and starts the servers of a local run: DynamoDB Local, Redis,
// Apache Kafka, a Docker engine, and the SAM CLI that uses the engine. Their data is temporary.
// A server ends with the process that started it. Redis, Kafka and the SAM CLI listen on
// loopback only. DynamoDB Local always listens on every address.
package servers
