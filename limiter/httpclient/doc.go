// Package httpclient is the client's side of a rate limit. Its http.RoundTripper observes the limits of
// the APIs that it calls. The APIs need not use Weir. The zero value is ready for use:
//
//	client := &http.Client{Transport: &httpclient.Transport{}}
//
// # What a Transport does
//
//   - It repeats a refused request if a repetition is safe. A refusal is a 429, or a 503 with
//     Retry-After. It waits for Retry-After (seconds or a date, RFC 9110) plus a random time of up to
//     1, 2, 4 and then 8 seconds. Clients that were refused at the same time then do not all return at
//     the same time.
//   - A 503 that names no quota applies only to the method and path of the request. The Transport tries
//     this path again after at most five minutes.
//   - While an API refuses, the Transport holds all other requests of the same quota. After the wait
//     it first sends one request, as a probe.
//   - It spreads the last quarter of a quota over the time until the reset. It reads RateLimit and
//     RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers-11), or X-RateLimit-Limit, -Remaining
//     and -Reset. The requests in flight never exceed the remaining quota.
//   - It sends the first request of a quota alone and waits up to a second for the response. The
//     response shows how many requests may follow.
//   - After five consecutive refusals it opens a circuit breaker. Requests then fail immediately with a
//     [WaitError], until the API may be tried again. The Transport then sends one request as a probe.
//     Refusals of requests that were in flight together count as one.
//
// The waits of a request take at most [Transport.MaxWait] in total, and end with its context. A
// request that would have to wait longer returns immediately. RoundTrip then returns the API's
// refusal, or a WaitError if the request was not sent.
//
// # Which requests share a quota
//
// Requests share a quota if they have the same host and the same credential (Authorization or
// X-Api-Key). If the API names policies and partitions, these must be the same too. The quota of a
// path also applies to other paths of its folder until they have responses of their own. A Transport
// keeps at most 1,024 quotas. It does not store credentials, only hashes of them with a random seed.
//
// Some schemes sign each request, so that Authorization is different each time (AWS Signature Version
// 4, OAuth 1.0, Digest). With such a scheme, sign requests in [Transport.Base]. The Transport then sees requests before they are signed,
// and Base signs a repeated request again. A signature in another header field does not separate
// callers.
//
// # What it does not know
//
// A Transport does not know other processes that use the same quota, but the API's responses include
// their use. It does not know the cost of a request. If some requests cost more than one, the API can
// refuse the last requests of a quota.
package httpclient
