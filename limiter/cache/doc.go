// Package cache caches a value from a source, for example the signing keys of an issuer or a record of a table. A
// [Value] reads its source when a request needs it. It reads nothing between requests, because Lambda freezes a
// process then.
//
// A Value is fresh for [Policy].Fresh. The first request after that reads the source again and waits. Other requests
// use the previous value meanwhile. While the source fails, requests use the previous value until it is
// [Policy].Stale old, so a shorter outage affects no request. A failing source gets one read per [Policy].Cooldown.
//
// Only one read runs at a time. It continues after the request that began it has ended.
package cache
