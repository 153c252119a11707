package httplimit

import (
	"strconv"
	"time"
)

// The RateLimit fields are in a separate file because their draft can change. The draft is
// draft-ietf-httpapi-ratelimit-headers-11. A field is a List of Strings with parameters (RFC 9651). The
// name of a limit needs no escaping.

// policyField returns the value of RateLimit-Policy: the quota, and the window in seconds.
func policyField(name string, quota int64, window time.Duration) string {
	b := append(make([]byte, 0, 48), '"')
	b = append(b, name...)
	b = append(b, `";q=`...)
	b = strconv.AppendInt(b, quota, 10)
	b = append(b, `;w=`...)
	b = strconv.AppendInt(b, seconds(window), 10)
	return string(b)
}

// rateLimitField returns the value of RateLimit: the remaining quota and the seconds until more is
// available. If wait is negative, the value has no time.
func rateLimitField(name string, available, wait int64) string {
	b := append(make([]byte, 0, 48), '"')
	b = append(b, name...)
	b = append(b, `";r=`...)
	b = strconv.AppendInt(b, available, 10)
	if wait >= 0 {
		b = append(b, `;t=`...)
		b = strconv.AppendInt(b, wait, 10)
	}
	return string(b)
}

// seconds returns d in seconds, rounded up.
func seconds(d time.Duration) int64 {
	return int64((d + time.Second - 1) / time.Second)
}
