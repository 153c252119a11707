// Package servers fetches and starts the servers that a local run needs: DynamoDB
// Local and Redis. They listen on loopback only, keep nothing, and end with the
// process that started them.
package servers
