// Package httpclient is the client's side of a rate limit. Its http.RoundTripper observes the limits of
// the APIs that it calls. The APIs need not use Weir. The zero value is ready for use:
//
//	client := &http.Client{Transport: &httpclient.Transport{}}
//
// # What a Transport does
//
//   - It repeats a refused request if a repetition is safe. A refusal is a 429, a 503 with Retry-After, or by setting a 403. It
//     waits as the API demands, plus a random time of up to 1, 2, 4 and then 8 seconds, so that clients that were refused at the
//     same time do not all return at the same time.
//   - While a quota is exhausted, it holds the other requests of this quota. A response shows this in advance by a remaining
//     quota of 0.
//   - A request that would have to wait longer than [Transport.MaxWait] returns at once: the refusal, or a [WaitError] if the
//     request was not sent. MaxWait after a response, the Transport sends requests in any case, so a wrong field stops a client
//     for this time at most.
//
// # What it reads
//
//   - Retry-After-Ms, or else Retry-After
//   - RateLimit (draft-ietf-httpapi-ratelimit-headers, 7 to 11)
//   - groups of Remaining and Reset: RateLimit-, X-RateLimit-, X-Rate-Limit-, and those with the name of a quota, such as
//     X-RateLimit-Reset-Tokens or Anthropic-RateLimit-Tokens-Reset. Of several exhausted quotas, the longest wait counts.
//
// Each of them can be a number or a date: above 10^12 milliseconds since 1970, above 10^9 seconds since 1970, or else a delay in
// seconds; decimals; a delay with units (6m0s, 76ms); RFC 3339; or a date of HTTP. Instants are relative to the field Date.
//
// # Which requests share a quota
//
// Requests share a quota if they have the same host and the same credential (Authorization or X-Api-Key). If the API names its
// quotas, the requests must also be for the same folder. A 503 without a name is only for the same method and path. A Transport
// keeps the last 1,024 exhausted quotas. It does not store credentials, only hashes with a random seed.
//
// Some schemes sign each request, so that Authorization is different each time (AWS Signature Version 4, OAuth 1.0, Digest).
// With such a scheme, sign requests in [Transport.Base].
package httpclient
