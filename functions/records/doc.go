// Package records defines the records table, which contains everything of a deployment except
// counters.
//
// The table has one string key and a few kinds of items:
//
//	pk "apikey#<hash>"    id, tier, owner, created, suspended, limits   an API key (package apikeys)
//	pk "secrets"          key                                           the secret that hashes API keys (package apikeys)
//	pk "rules"            version, document, published, note, bytes     the rules in force (package rulestore)
//	pk "rules#<version>"  the same attributes                           each of the last fifty versions
//	pk "rules#history"    versions                                      the list of those versions, newest first
//	pk "deployedrules#<namespace>"  the same attributes                 the rules that the deployment published
//	pk "signingkeys"      jwks, fetched                                 a copy of the issuer's key set
//	pk "subjectkey"       key                                           the key of subject hashes
//	pk "mackey"           key                                           the key of MACs (package mac)
//
// This package defines the table ([TableInput]), reads of single items ([Table]), items with a secret ([LoadSecret]), and
// [SigningKeys].
//
// Functions only read single items, with four exceptions. The function signingkeys writes the item
// "signingkeys". The function publisher writes the item "deployedrules#<namespace>". The first function that
// starts creates the item "subjectkey", and the first that needs the key of MACs creates "mackey". If the table is a
// global one, functions of all regions create them in the first region.
// IAM policies limit reads and writes by the partition key. Functions use eventually consistent reads, which cost
// half. Such a read may miss a change of the last second, but readers cache items for longer than a second anyway.
package records
