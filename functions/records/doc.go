// Package records defines the records table: what a deployment keeps besides counters.
//
// The table has one string key and a few kinds of items:
//
//	pk "apikey#<hash>"    id, tier, owner, created                      an API key (package apikeys)
//	pk "secrets"          current, previous, rotated                    secrets that hash API keys (package apikeys)
//	pk "rules"            version, document, published, note, bytes     the rules in force (package rulestore)
//	pk "rules#<version>"  the same attributes                           each of the last fifty versions
//	pk "rules#history"    versions                                      the list of those versions, newest first
//	pk "signingkeys"      jwks, fetched                                 a copy of the issuer's key set
//	pk "subjectkey"       key                                           the key of subject hashes
//
// This package has the table itself ([TableInput]), reads of single items ([Table]), and the two
// records that consist of one item: [SigningKeys] and [SubjectKey].
//
// Functions only read single items, with two exceptions that a policy limits by the partition key:
// the function signingkeys writes the item "signingkeys", and a function that starts before
// "subjectkey" exists creates it. Reads by functions are eventually consistent, for half the price:
// a change of the last second may not be visible yet, and readers cache longer than that.
package records
