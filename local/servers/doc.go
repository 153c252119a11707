// Package servers fetches and starts the servers of a local run: DynamoDB Local, Redis,
// Apache Kafka, a Docker engine, and the SAM CLI on it. Their data is temporary, and they end
// with the process that started them. Redis, Kafka and the SAM CLI listen on loopback only.
// DynamoDB Local can only listen on every address.
package servers
