// Package rediscache opens a Redis server or an ElastiCache Serverless cache as the store of package
// boot. Only programs with this store link the client of Redis.
package rediscache
