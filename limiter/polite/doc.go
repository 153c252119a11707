// Package polite is the other side of a rate limit: an http.RoundTripper for those who call an
// API that has one, Weir's or another's. The zero value is ready for use:
//
//	client := &http.Client{Transport: &polite.Transport{}}
//
// What a [Transport] does with what an API says of its limits:
//
//   - A refusal, which is 429, or 503 with Retry-After, is tried again where it may be: after what
//     Retry-After says (seconds or a date, RFC 9110) and a random part of 1, 2, 4 and then 8 seconds,
//     so never earlier than told, and not together with all the others who were refused.
//   - A 503 that names no quota is of its method and path alone, and after five minutes at most
//     these are asked again, whatever it said.
//   - While an API refuses, no other request of the same quota is sent either: they wait,
//     and then one goes first, to ask.
//   - From the last quarter of a quota on, requests are spread over the time until it is renewed, by
//     the fields RateLimit and RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers-11), or
//     X-RateLimit-Limit, -Remaining and -Reset. No more are under way at once than what remains.
//   - The first request of all to a quota goes alone, for a second at most: its answer says how
//     many may follow.
//   - After five refusals in a row a breaker opens: until the API may be asked again, requests
//     fail at once with a [WaitError], and then one is sent as a probe. Refusals of requests that
//     were under way together count once.
//
// A request waits at most [Transport.MaxWait] in all, and never longer than its context lives; if it
// would have to, it gets the refusal as the API sent it or, if it was not sent, a WaitError, at once.
//
// Quotas are told apart by host, by the credential (Authorization or X-Api-Key) and, where the API
// names its policies and partitions, by those: what is learnt of a path holds for the paths beside it
// until they have an answer of their own. At most 1,024 quotas are remembered, and of credentials
// nothing but a hash with a random seed.
//
// Of an AWS signature (Signature Version 4) the id of the key counts. Where another scheme signs each
// request, so that no Authorization comes twice (OAuth 1.0, Digest), each would be a caller of its
// own, whom nothing is known of: let [Transport.Base] sign, so that the Transport sees requests
// before they are signed, and those that it repeats are signed anew. A signature in a field of
// its own tells no callers apart.
//
// It does not know of other processes that use the same quota: for them the API's answers have
// to do. It does not tell what a request costs, so where some cost more than one the last of a quota
// may be refused.
package polite
