package httpclient

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// response returns a response. The first line is the status, and the others are header fields.
func response(lines ...string) *http.Response {
	r := &http.Response{StatusCode: map[string]int{"200": 200, "429": 429, "503": 503}[lines[0]], Header: http.Header{}}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r
}

func TestAdviceOf(t *testing.T) {
	const none = math.MaxInt64
	for _, c := range []struct {
		lines []string
		want  advice
	}{
		{[]string{"200"}, advice{wait: -1, capacity: none}},
		{[]string{"429"}, advice{refused: true, wait: -1, capacity: none}},
		{[]string{"429", "Retry-After: 5"}, advice{refused: true, wait: 5 * time.Second, capacity: none}},
		{[]string{"503", "Retry-After: 0"}, advice{refused: true, capacity: none}},
		{[]string{"503"}, advice{wait: -1, capacity: none}},
		{[]string{"503", "Retry-After: soon"}, advice{wait: -1, capacity: none}},
		{[]string{"429", "Retry-After: -5"}, advice{refused: true, wait: -1, capacity: none}},
		{[]string{"429", "Retry-After: 9223372036854775807"}, advice{refused: true, wait: farthest, capacity: none}},
		// A date is relative to the Date of the response. Without Date, it is relative to the
		// client's clock.
		{[]string{"429", "Retry-After: Wed, 04 Mar 2026 12:00:07 GMT"}, advice{refused: true, wait: 7 * time.Second, capacity: none}},
		{[]string{"429", "Date: Wed, 04 Mar 2026 13:00:00 GMT", "Retry-After: Wed, 04 Mar 2026 13:00:07 GMT"},
			advice{refused: true, wait: 7 * time.Second, capacity: none}},
		{[]string{"429", "Retry-After: Tue, 03 Mar 2026 12:00:07 GMT"}, advice{refused: true, capacity: none}},
		// For a bucket, Weir sends two capacities: the burst, and the requests of the window. The
		// smaller capacity applies.
		{[]string{"200", "X-RateLimit-Limit: 20", "X-RateLimit-Remaining: 17", "X-RateLimit-Reset: 1772625602",
			`RateLimit-Policy: "search";q=100;w=60`, `RateLimit: "search";r=17;t=2`},
			advice{wait: -1, name: "6search", known: true, left: 17, reset: 2 * time.Second, capacity: 20}},
		{[]string{"429", "Retry-After: 1", `RateLimit-Policy: "search";q=100;w=60`, `RateLimit: "search";r=0;t=1`},
			advice{refused: true, wait: time.Second, name: "6search", known: true, reset: time.Second, capacity: 100}},
		{[]string{"429", `RateLimit: "search";r=0;t=9`}, advice{refused: true, wait: 9 * time.Second, name: "6search", known: true,
			reset: 9 * time.Second, capacity: none}},
		// Retry-After takes precedence over the t parameter of RateLimit, even if Retry-After is
		// shorter.
		{[]string{"429", "Retry-After: 2", `RateLimit: "search";r=0;t=9`}, advice{refused: true, wait: 2 * time.Second, name: "6search",
			known: true, reset: 9 * time.Second, capacity: none}},
		// The quota with the lowest remaining rate applies. Quotas with units other than requests
		// are ignored.
		{[]string{"200", `RateLimit-Policy: "burst";q=100;w=60, "daily";q=1000;w=86400`, `RateLimit: "burst";r=50;t=30`,
			`RateLimit: "daily";r=100;t=40000`},
			advice{wait: -1, name: "5daily", known: true, left: 100, reset: 40000 * time.Second, capacity: 1000}},
		{[]string{"200", `RateLimit: "daily";r=100;t=40000, "burst";r=50;t=30`}, advice{wait: -1, name: "5daily", known: true, left: 100,
			reset: 40000 * time.Second, capacity: none}},
		{[]string{"200", `RateLimit-Policy: "bytes";q=9;qu="content-bytes"`, `RateLimit: "bytes";r=0;t=30, "n";r=5;t=3`},
			advice{wait: -1, name: "1n", known: true, left: 5, reset: 3 * time.Second, capacity: none}},
		{[]string{"200", `RateLimit: "n";pk=:cGs=:;r=5;t=3`}, advice{wait: -1, name: "1npk", known: true, left: 5, reset: 3 * time.Second,
			capacity: none}},
		// Fields without a time and malformed fields are ignored.
		{[]string{"200", `RateLimit: "search";r=20`}, advice{wait: -1, capacity: none}},
		{[]string{"200", `RateLimit: search;r=20;t=3`}, advice{wait: -1, capacity: none}},
		{[]string{"200", `RateLimit: "search";r=-1;t=3`}, advice{wait: -1, capacity: none}},
		{[]string{"200", `RateLimit: "search";r=1;t=3,`}, advice{wait: -1, capacity: none}},
		{[]string{"200", `RateLimit: "search";r=1;t=3, "` + strings.Repeat("x", maxField) + `"`}, advice{wait: -1, capacity: none}},
		{[]string{"200", "Age: 3", `RateLimit: "search";r=1;t=3`}, advice{wait: -1, capacity: none}},
		{[]string{"200", `RateLimit: "search";r=999999999999999;t=999999999999999`}, advice{wait: -1, name: "6search", known: true,
			left: 999999999999999, reset: farthest, capacity: none}},
		// The reset of the X-RateLimit fields is in seconds or in Unix seconds.
		{[]string{"200", "X-RateLimit-Limit: 60", "X-RateLimit-Remaining: 3", "X-RateLimit-Reset: 1772625610"}, advice{wait: -1, known: true,
			left: 3, reset: 10 * time.Second, capacity: 60}},
		{[]string{"200", "Date: Wed, 04 Mar 2026 12:00:05 GMT", "X-RateLimit-Remaining: 3", "X-RateLimit-Reset: 1772625610"},
			advice{wait: -1, known: true, left: 3, reset: 5 * time.Second, capacity: none}},
		{[]string{"200", "X-RateLimit-Remaining: 3", "X-RateLimit-Reset: 10"}, advice{wait: -1, known: true, left: 3, reset: 10 * time.Second,
			capacity: none}},
		{[]string{"200", "X-RateLimit-Remaining: 3"}, advice{wait: -1, capacity: none}},
	} {
		if got := adviceOf(response(c.lines...), noon); got != c.want {
			t.Errorf("%q:\n got %+v\nwant %+v", c.lines, got, c.want)
		}
	}
}

// FuzzAdviceOf searches for a response whose advice is out of bounds.
func FuzzAdviceOf(f *testing.F) {
	f.Add(429, "5", `"search";q=100;w=60`, `"search";r=17;t=2`, "20", "17", "1772625602", "Wed, 04 Mar 2026 12:00:05 GMT")
	f.Add(503, "Wed, 04 Mar 2026 13:00:07 GMT", `"a";q=1;qu="content-bytes"`, `"a";r=0;t=999999999999999, "b";pk=:cGs=:;r=1`, "-1",
		"9223372036854775807", "99999999999", "")
	f.Fuzz(func(t *testing.T, status int, retryAfter, policy, rateLimit, limit, remaining, reset, date string) {
		r := &http.Response{StatusCode: status, Header: http.Header{
			"Retry-After": {retryAfter}, "Ratelimit-Policy": {policy}, "Ratelimit": {rateLimit},
			"X-Ratelimit-Limit": {limit}, "X-Ratelimit-Remaining": {remaining}, "X-Ratelimit-Reset": {reset}, "Date": {date},
		}}
		a := adviceOf(r, noon)
		if a.wait < -1 || a.wait > farthest || a.reset < 0 || a.reset > farthest || a.left < 0 || a.capacity < 1 || len(a.name) > maxField+4 {
			t.Errorf("got %+v for %v, want every value within its bounds", a, r.Header)
		}
		if a.refused && status != 429 && status != 503 {
			t.Errorf("status %d: got a refusal, want a refusal only for 429 and 503", status)
		}
	})
}
