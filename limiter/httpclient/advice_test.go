package httpclient

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) // 1772625600

// response returns a response. The first line is the status, and the others are header fields.
func response(lines ...string) *http.Response {
	status, _ := strconv.Atoi(lines[0])
	r := &http.Response{StatusCode: status, Header: http.Header{}}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// These are answers in the documented forms of ten services. -1 is an unknown wait.
func TestAdviceOf_services(t *testing.T) {
	const refused, named, allowed = true, true, false
	for _, c := range []struct {
		service string
		lines   []string
		want    advice
	}{
		{"GitHub", []string{"200", "X-RateLimit-Limit: 60", "X-RateLimit-Remaining: 59", "X-RateLimit-Reset: 1772625660",
			"X-RateLimit-Resource: core"}, advice{allowed, -1, named}},
		{"GitHub", []string{"200", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1772625660", "X-RateLimit-Resource: search"},
			advice{allowed, 60 * time.Second, named}},
		{"GitHub", []string{"403", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1772625660", "Date: Wed, 04 Mar 2026 12:00:30 GMT"},
			advice{refused, 30 * time.Second, !named}},
		{"GitHub", []string{"403", "X-RateLimit-Remaining: 41", "X-RateLimit-Reset: 1772629200", "Retry-After: 60"},
			advice{refused, 60 * time.Second, !named}},
		{"GitHub", []string{"403", "X-RateLimit-Remaining: 41", "X-RateLimit-Reset: 1772629200"}, advice{allowed, -1, !named}},
		{"GitLab", []string{"200", "RateLimit-Limit: 60", "RateLimit-Name: throttle_web", "RateLimit-Observed: 60", "RateLimit-Remaining: 0",
			"RateLimit-Reset: 1772625612", "RateLimit-ResetTime: Wed, 04 Mar 2026 12:00:12 GMT"}, advice{allowed, 12 * time.Second, named}},
		{"GitLab", []string{"429", "RateLimit-Remaining: 0", "RateLimit-Reset: 1772625612", "Retry-After: 30"},
			advice{refused, 30 * time.Second, !named}},
		{"OpenAI", []string{"200", "x-ratelimit-limit-requests: 60", "x-ratelimit-remaining-requests: 59", "x-ratelimit-reset-requests: 1s",
			"x-ratelimit-remaining-tokens: 149984", "x-ratelimit-reset-tokens: 6m0s"}, advice{allowed, -1, !named}},
		{"OpenAI", []string{"200", "x-ratelimit-remaining-requests: 59", "x-ratelimit-reset-requests: 1h", "x-ratelimit-remaining-tokens: 0",
			"x-ratelimit-reset-tokens: 6m0s"}, advice{allowed, 6 * time.Minute, !named}},
		{"OpenAI", []string{"429", "x-ratelimit-remaining-requests: 0", "x-ratelimit-reset-requests: 8.64s", "x-ratelimit-remaining-tokens: 0",
			"x-ratelimit-reset-tokens: 76ms"}, advice{refused, 8640 * time.Millisecond, !named}},
		{"OpenAI", []string{"429", "retry-after-ms: 1500", "retry-after: 2"}, advice{refused, 1500 * time.Millisecond, !named}},
		{"OpenAI", []string{"503", "retry-after-ms: 12.5"}, advice{refused, 12500 * time.Microsecond, !named}},
		{"Azure", []string{"429", "retry-after-ms: soon", "retry-after: 21", "x-ratelimit-reset-requests: 30"},
			advice{refused, 21 * time.Second, !named}},
		{"Azure", []string{"429", "x-ratelimit-reset-requests: 30"}, advice{refused, 30 * time.Second, !named}},
		{"Azure", []string{"200", "x-ratelimit-reset-requests: 30"}, advice{allowed, -1, !named}},
		{"Anthropic", []string{"429", "retry-after: 5", "anthropic-ratelimit-tokens-remaining: 0",
			"anthropic-ratelimit-tokens-reset: 2026-03-04T12:00:20Z"}, advice{refused, 5 * time.Second, !named}},
		{"Anthropic", []string{"200", "anthropic-ratelimit-requests-remaining: 9", "anthropic-ratelimit-requests-reset: 2026-03-04T12:01:00Z",
			"anthropic-ratelimit-input-tokens-remaining: 0", "anthropic-ratelimit-input-tokens-reset: 2026-03-04T13:00:20+01:00"},
			advice{allowed, 20 * time.Second, !named}},
		{"Okta", []string{"429", "X-Rate-Limit-Limit: 600", "X-Rate-Limit-Remaining: 0", "X-Rate-Limit-Reset: 1772625641"},
			advice{refused, 41 * time.Second, !named}},
		{"Okta", []string{"200", "X-Rate-Limit-Remaining: 1", "X-Rate-Limit-Reset: 1772625641"}, advice{allowed, -1, !named}},
		{"Discord", []string{"200", "X-RateLimit-Limit: 5", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1772625601.5",
			"X-RateLimit-Reset-After: 1.5", "X-RateLimit-Bucket: abcd1234"}, advice{allowed, 1500 * time.Millisecond, named}},
		{"Discord", []string{"429", "Retry-After: 65", "X-RateLimit-Global: true"}, advice{refused, 65 * time.Second, !named}},
		{"Discord", []string{"429", "X-RateLimit-Reset-After: 0.25"}, advice{refused, 250 * time.Millisecond, !named}},
		{"Shopify", []string{"429", "Retry-After: 2.0", "X-Shopify-Shop-Api-Call-Limit: 40/40"}, advice{refused, 2 * time.Second, !named}},
		{"Reddit", []string{"200", "x-ratelimit-used: 600", "x-ratelimit-remaining: 0.0", "x-ratelimit-reset: 213"},
			advice{allowed, 213 * time.Second, !named}},
		{"Express", []string{"200", "RateLimit-Policy: 100;w=900", "RateLimit: limit=100, remaining=0, reset=12"},
			advice{allowed, 12 * time.Second, !named}},
		{"Express", []string{"200", "RateLimit: limit=100, remaining=7, reset=12"}, advice{allowed, -1, !named}},
		{"Express", []string{"429", "Retry-After: 12", `RateLimit: "100-in-15min"; r=0; t=12`,
			`RateLimit-Policy: "100-in-15min"; q=100; w=900; pk=:YTY=:`}, advice{refused, 12 * time.Second, named}},
		{"Weir", []string{"200", "X-RateLimit-Limit: 20", "X-RateLimit-Remaining: 17", "X-RateLimit-Reset: 1772625602",
			`RateLimit-Policy: "search";q=100;w=60`, `RateLimit: "search";r=17;t=2`}, advice{allowed, -1, named}},
		{"Weir", []string{"429", "Retry-After: 1", `RateLimit: "search";r=0;t=9`}, advice{refused, time.Second, named}},
		{"proxy", []string{"200", "Age: 3", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 60"}, advice{allowed, -1, !named}},
		{"milliseconds", []string{"429", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1772625604250"},
			advice{refused, 4250 * time.Millisecond, !named}},
		{"Unix seconds", []string{"429", "Retry-After: 1772625607"}, advice{refused, 7 * time.Second, !named}},
		// Of several exhausted quotas, the longest wait counts. Malformed and oversized fields are ignored.
		{"draft 8", []string{"200", `RateLimit: "a";r=0;t=40, "b";r=0;t=3`, `RateLimit: "c";r=5;t=300`},
			advice{allowed, 40 * time.Second, named}},
		{"draft 8", []string{"200", `RateLimit: "a";r=0`}, advice{allowed, -1, named}},
		{"malformed", []string{"200", `RateLimit: "a";r=0;t=3,`}, advice{allowed, -1, !named}},
		{"oversized", []string{"200", `RateLimit: "a";r=0;t=3, "` + strings.Repeat("x", maxField) + `"`}, advice{allowed, -1, !named}},
		{"none", []string{"429"}, advice{refused, -1, !named}},
		{"none", []string{"503"}, advice{allowed, -1, !named}},
		{"none", []string{"202", "Retry-After: 9"}, advice{allowed, -1, !named}},
	} {
		if got := adviceOf(response(c.lines...), noon, true); got != c.want {
			t.Errorf("%s %q:\n got %+v\nwant %+v", c.service, c.lines, got, c.want)
		}
	}
	if got := adviceOf(response("403", "Retry-After: 60"), noon, false); got.refused {
		t.Errorf("403 without Forbidden: got %+v, want no refusal", got)
	}
}

func TestInstant(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"0": 0, "5": 5 * time.Second, "1.25": 1250 * time.Millisecond, "1000000000": farthest, "1000000001": 0, "999999999999999": farthest,
		"9223372036854775807": farthest, "6m0s": 6 * time.Minute, "76ms": 76 * time.Millisecond, "99h": farthest,
		"Wed, 04 Mar 2026 12:00:07 GMT": 7 * time.Second, "Wed, 04 Mar 2026 12:00:07 UTC": 7 * time.Second,
		"Wednesday, 04-Mar-26 12:00:07 GMT": 7 * time.Second, "Wed Mar  4 12:00:07 2026": 7 * time.Second,
		"Wed, 04 Mar 2026 13:00:07 +0100": 7 * time.Second, "2026-03-04T12:00:07.5Z": 7500 * time.Millisecond, "2025-03-04T12:00:07Z": 0,
		"": -1, "soon": -1, "-5": -1, "-5s": -1, "1.2.3": -1, ".": -1, "1e5": -1, "Inf": -1, "5, 6": -1, strings.Repeat("0", maxValue+1): -1,
	} {
		if got := instant(value, noon); got != want {
			t.Errorf("%q: got %s, want %s", value, got, want)
		}
	}
}

// FuzzAdviceOf searches for a response whose advice is out of bounds.
func FuzzAdviceOf(f *testing.F) {
	f.Add(429, "5", `"search";r=0;t=2`, "X-RateLimit-", "0", "1772625602", "Wed, 04 Mar 2026 12:00:05 GMT")
	f.Add(503, "Wed, 04 Mar 2026 13:00:07 GMT", `limit=1, remaining=0, reset=999999999999999`, "Tokens-", "-1", "9223372036854775807", "")
	f.Fuzz(func(t *testing.T, status int, after, rateLimit, prefix, left, reset, date string) {
		a := adviceOf(&http.Response{StatusCode: status, Header: http.Header{"Retry-After": {after}, "Ratelimit": {rateLimit},
			prefix + "Remaining": {left}, prefix + "Reset": {reset}, "Date": {date}}}, noon, true)
		if a.wait < unknown || a.wait > farthest || a.refused && status != 429 && status != 503 && status != 403 {
			t.Errorf("got %+v, want a wait within its bounds", a)
		}
	})
}

// Whatever an API sends, a Transport keeps a bounded number of blocks.
func TestTransport_bounded(t *testing.T) {
	transport := &Transport{}
	transport.once.Do(transport.open)
	for i := range 5000 {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://h"+strconv.Itoa(i)+".test/", http.NoBody)
		transport.learn(r, 429, advice{refused: true, wait: time.Hour}, noon)
	}
	if n := transport.blocks.Len(); n != maxBlocks {
		t.Errorf("got %d blocks, want %d", n, maxBlocks)
	}
	// A shorter wait does not shorten a block, but counts after it.
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.test/", http.NoBody)
	for _, c := range []struct{ at, wait, want time.Duration }{{0, time.Hour, time.Hour}, {time.Minute, time.Minute, time.Hour},
		{DefaultMaxWait, time.Second, DefaultMaxWait + time.Second}} {
		transport.learn(r, 429, advice{refused: true, wait: c.wait}, noon.Add(c.at))
		if b, _ := transport.blocks.Peek(transport.scopes(r)[0]); b.until.Sub(noon) != c.want {
			t.Errorf("after a wait of %s at %s: got a block of %s, want %s", c.wait, c.at, b.until.Sub(noon), c.want)
		}
	}
}
