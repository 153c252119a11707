// Package apikeys keeps API keys in the records table.
//
// The table never contains a key. It contains the HMAC-SHA256 of the key under a secret of the table
// ([Key]). A key has 256 random bits, so a reader of the table cannot compute the key from its hash,
// even with the secret. The secret is in the same table because functions in a VPC can reach only
// DynamoDB. An imported key ([Keys.Import]) can have fewer: a reader of the table can then guess it.
//
// [Table] is for functions. It implements caller.KeyTable with reads of single items. [Keys] is for
// operators. It creates, lists and revokes keys.
package apikeys
