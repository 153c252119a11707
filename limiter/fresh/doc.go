// Package fresh caches a value from a source, for example the signing keys of an issuer or a record of a
// table. A [Value] reads its source when a request needs it. It reads nothing between requests, because
// Lambda freezes a process then.
//
// A Value is fresh for [Policy].Fresh. The first request after that reads the source again and waits.
// Requests that come meanwhile use the previous value. While the source fails, requests use the previous
// value until it is [Policy].Stale old. Therefore, a shorter outage of the source affects no request. A
// failing source gets one read per [Policy].Cooldown.
//
// There is one read at a time. It continues if the request that began it ends.
package fresh
