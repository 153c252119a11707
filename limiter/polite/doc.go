// Package polite is the client's side of a rate limit: an http.RoundTripper that keeps to the
// limits of the APIs that it calls, Weir's or others. The zero value is ready for use:
//
//	client := &http.Client{Transport: &polite.Transport{}}
//
// # What a Transport does
//
//   - It repeats a refused request where that does no harm. A refusal is a 429, or a 503 with
//     Retry-After. The wait is that of Retry-After (seconds or a date, RFC 9110) plus a random part
//     of 1, 2, 4 and then 8 seconds. So clients that were refused together do not return together.
//   - It limits a 503 that names no quota to the method and path of the request, and tries these
//     again after at most five minutes.
//   - While an API refuses, it holds all other requests of the same quota. Then it sends one
//     request first, as a probe.
//   - It spreads the last quarter of a quota over the time until the reset. It reads RateLimit and
//     RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers-11), or X-RateLimit-Limit, -Remaining
//     and -Reset. At most as many requests are in flight as the quota has left.
//   - It sends the first request of a quota alone, for at most a second. The answer shows how many
//     may follow.
//   - After five refusals in a row it opens a circuit breaker. Requests then fail at once with a
//     [WaitError] until the API may be tried again, and then one request is sent as a probe.
//     Refusals of requests that were in flight together count once.
//
// A request waits at most [Transport.MaxWait] in all, and never longer than its context. If it would
// have to wait longer, it returns at once: with the API's refusal, or with a WaitError if it was not
// sent.
//
// # Which requests share a quota
//
// Requests share a quota if they have the same host and credential (Authorization or X-Api-Key) and,
// where the API names policies and partitions, the same of those. The quota of a path applies to the
// other paths of its folder until they have answers of their own. A Transport keeps at most 1,024
// quotas, and of a credential only a hash with a random seed.
//
// Of an AWS signature (Signature Version 4) the key ID counts. Other schemes sign each request, so
// that no Authorization occurs twice (OAuth 1.0, Digest). There, sign in [Transport.Base]: the
// Transport then sees requests before they are signed, and repeated requests are signed again. A
// signature in a header field of its own does not separate callers.
//
// # What it does not know
//
// A Transport does not know of other processes that use the same quota; the API's answers show their
// use. It does not know the cost of a request, so the last requests of a quota may be refused where
// some cost more than one.
package polite
