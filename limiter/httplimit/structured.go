package httplimit

import (
	"strconv"
	"time"

	"github.com/weir-limits/weir/limiter"
)

// The RateLimit fields are in a separate file because their draft can change. The draft is
// draft-ietf-httpapi-ratelimit-headers-11. A field is a List of Strings with parameters (RFC 9651). The
// name of a limit needs no escaping.

// policyField returns the value of RateLimit-Policy: the quota, its unit if it is not requests, and the
// window in seconds. A quota of requests in flight has no window.
func policyField(l *limiter.Limit, at time.Time) string {
	b := append(make([]byte, 0, 48), '"')
	b = append(b, l.Name...)
	b = append(b, `";q=`...)
	b = strconv.AppendInt(b, l.Rate.Requests, 10)
	switch l.Count.Of {
	case limiter.CountConcurrent:
		return string(append(b, `;qu="concurrent-requests"`...))
	case limiter.CountBytes:
		b = append(b, `;qu="content-bytes"`...)
	// No parameter, because the draft has units only for requests, bytes and concurrent requests.
	case limiter.CountRequests, limiter.CountCost, limiter.CountFailures:
	}
	b = append(b, `;w=`...)
	b = strconv.AppendInt(b, seconds(l.WindowAt(at)), 10)
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
