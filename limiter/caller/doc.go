// Package caller identifies the sender of a request: the user of a verified token, the record of an
// API key, or the address. [Identifier] does it; [Caller] is the result.
//
// # What is verified
//
// Only verified values identify a caller. The algorithms of tokens are pinned, and the signature,
// issuer, audience and times of a token are checked. An API key is valid only if there is a record of
// it. If one of two credentials is bad, the caller is identified by address alone. So a forged token
// never charges the user that it names. No error contains a token or an API key, and none is kept.
//
// A limit can count by a claim that is a string, a number or a boolean. A list or an object counts as
// absent, and limits by such a claim are skipped.
//
// The address must come from the end of the connection: the context of API Gateway, the peer of a
// connection, or the last hop that a load balancer added. Never use a header that a client can send.
//
// # Remote keys and records
//
// [RemoteKeys] and [RemoteRecords] read signing keys and API key records when a request needs them,
// and keep them. While the source fails, they use the old values for a time. Their size and number of
// reads are bounded for any client input.
package caller
