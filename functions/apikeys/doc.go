// Package apikeys keeps API keys in the records table.
//
// The table never contains a key, only its HMAC-SHA256 under a secret of the table ([Key]). A key
// has 256 random bits, so its hash is useless to a reader of the table, and the secret beside the
// hashes adds little. The secret is in the same table because functions in a VPC can reach only
// DynamoDB.
//
// A rotation adds a new secret and keeps the previous one. Keys that were hashed with the
// previous secret stay valid until the next rotation, which removes it.
//
// [Table] is for functions: it implements caller.KeyTable by reads of single items. [Keys] is for
// operators: it creates, lists and revokes keys.
package apikeys
