// Package servers starts the servers of a local run: DynamoDB Local, which it fetches, and Redis. Their
// data is temporary. A server ends with the process that started it. Redis listens on loopback only.
// DynamoDB Local always listens on every address.
package servers
