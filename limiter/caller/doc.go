// Package caller identifies the sender of a request: the user of a verified token, the record of an
// API key, or the address. An [Identifier] returns a [Caller].
//
// # Verification
//
// Only verified values identify a caller. A token is valid only if its algorithm is one of the pinned
// algorithms and if its signature, issuer, audience and times are valid. An API key is valid only if
// there is a record of it. If a request has two credentials and one is bad, only the address
// identifies the caller. So a forged token never charges the user that it names. Errors contain no
// token and no API key, and the package does not store them.
//
// A limit can count by a claim that is a string, a number or a boolean, or a list of these; see [Claims].
//
// The address must be the peer of the connection, the address in the context of API Gateway, or the
// last hop that a load balancer added. Never use a header that a client can send.
//
// # Remote keys and records
//
// [RemoteKeys] and [RemoteRecords] read signing keys and API key records when a request needs them,
// and cache them. While the source fails, they use the cached values for a limited time. Memory and
// the number of reads are bounded for any client input.
package caller
