// Package fresh keeps a value whose source is elsewhere: signing keys of an issuer, a record of
// a table. A [Value] reads its source when a request needs it. Nothing runs in the background,
// because Lambda freezes a process between requests.
//
// A value is used for [Policy].Fresh. The first request after that reads the source again and waits.
// The requests that come meanwhile use the previous value. While the source fails, that value is used
// until it is [Policy].Stale old. So a shorter outage of the source refuses no request, and a failing
// source gets one read per [Policy].Cooldown.
//
// There is one read at a time, and it continues after the request that began it.
package fresh
