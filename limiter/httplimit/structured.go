package httplimit

import (
	"strconv"
	"time"
)

// The RateLimit fields stand apart from the rest because their draft still moves:
// draft-ietf-httpapi-ratelimit-headers-11, a List of Strings with parameters
// (RFC 9651). A limit's name needs no escaping.

// policyField returns the value of RateLimit-Policy: a quota of so many requests in
// a window of so many seconds.
func policyField(name string, quota int64, window time.Duration) string {
	b := append(make([]byte, 0, 48), '"')
	b = append(b, name...)
	b = append(b, `";q=`...)
	b = strconv.AppendInt(b, quota, 10)
	b = append(b, `;w=`...)
	b = strconv.AppendInt(b, seconds(window), 10)
	return string(b)
}

// rateLimitField returns the value of RateLimit: what is available of a quota, and
// in how many seconds that will be better; no time if it never will.
func rateLimitField(name string, available, effective int64) string {
	b := append(make([]byte, 0, 48), '"')
	b = append(b, name...)
	b = append(b, `";r=`...)
	b = strconv.AppendInt(b, available, 10)
	if effective >= 0 {
		b = append(b, `;t=`...)
		b = strconv.AppendInt(b, effective, 10)
	}
	return string(b)
}

// seconds returns d in seconds, rounded up.
func seconds(d time.Duration) int64 {
	return int64((d + time.Second - 1) / time.Second)
}
