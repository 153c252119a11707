// Package servers fetches and starts what a local run needs: DynamoDB Local, Redis, Apache
// Kafka, a Docker engine, and the SAM CLI on it. All keep nothing and end with the process that
// started them. Redis, Kafka and the SAM CLI listen on loopback only; DynamoDB Local knows no
// other way than to listen on every address.
package servers
