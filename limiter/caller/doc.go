// Package caller finds out who sent a request: the user of a verified token, the
// record of an API key, the address.
//
// Nothing is believed that was not verified. A token's algorithm is pinned and its
// signature, issuer, audience and times are checked; an API key counts only if there
// is a record of it. One bad credential of two spoils both: the caller is then known
// by address alone, so a forged token costs its claimed user nothing. Neither a token
// nor an API key is kept, logged or made part of an error.
//
// Signing keys and records of API keys may be elsewhere: [RemoteKeys] and [RemoteRecords] read
// them when they are needed, keep them, and outlive a source that fails for a time. What a
// client sends makes them neither grow nor ask without bound.
//
// A claim that is a string, a number or a boolean can be counted by; a list or an object
// counts as absent, and a limit by such a claim is skipped.
//
// The address must come from whoever terminates the connection: the context of API
// Gateway, the peer of a connection, the last hop that a load balancer has added. A
// header that a client can send is not an address.
package caller
