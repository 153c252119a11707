// Package records knows the records table: what there is beside counters, and is to be kept.
// It has a few small items, one for each API key and two more:
//
//	pk "apikey#<hash>"  id, tier, owner, created   a key: HMAC-SHA256 of it in hexadecimal digits
//	pk "secrets"        current, previous, rotated 32 bytes each, by which keys are hashed
//	pk "signingkeys"    jwks, fetched              the issuer's key set, as the issuer sent it
//
// A key is in none of them. Without the secrets a hash tells nothing of its key, and they
// are beside it only because functions in a VPC reach no other service than DynamoDB: it is
// that a key has 256 random bits which makes hashes worthless, not that the secrets are hidden.
// A rotation makes "previous" of "current", and a new one: keys that were hashed with it stay
// good until the next rotation, when it goes.
//
// [Table] is for the functions, which read single items and may do nothing else
// ([ReadActions]). The reads are eventually consistent, for half the price: what was changed
// within the last second may not be seen, and readers keep what they read for longer than
// that. [SigningKeys] is the function that copies the issuer's keys, and writes one item
// ([SigningKeysKey], [SigningKeyActions]). [Keys] is for operators.
package records
