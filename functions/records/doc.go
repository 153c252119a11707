// Package records knows the records table: what there is beside counters, and is to be kept.
// It has an item for each API key and a few more:
//
//	pk "apikey#<hash>"  id, tier, owner, created   a key: HMAC-SHA256 of it in hexadecimal digits
//	pk "secrets"        current, previous, rotated 32 bytes each, by which keys are hashed
//	pk "signingkeys"    jwks, fetched              the issuer's key set, as the issuer sent it
//	pk "rules"          version, document, put, note, bytes   the rules in force, compressed by gzip
//	pk "rules#<version>"                           the same of each of the last fifty versions
//	pk "rules#history"  versions                   what there is of each but its document, the newest first
//
// A key is in none of them. Without the secrets a hash tells nothing of its key, and they
// are beside it only because functions in a VPC reach no other service than DynamoDB: it is
// that a key has 256 random bits which makes hashes worthless, not that the secrets are hidden.
// A rotation makes "previous" of "current", and a new one: keys that were hashed with it stay
// good until the next rotation, when it goes.
//
// [Table] is for the functions, which read single items and may do nothing else
// (contract.RecordActions). The reads are eventually consistent, for half the price: what was changed
// within the last second may not be seen, and readers keep what they read for longer than
// that. Rules are one item because whoever reads them needs all: half a read unit for each 4 KB
// and environment a minute. [SigningKeys] is the function that copies the issuer's keys, and writes one item
// (contract.SigningKeysKey). [Keys] and [Rules] are for operators: rules are put by one
// transaction of their three items, so that of two who put at once one is refused, and what is in
// the history is what was in force.
package records
