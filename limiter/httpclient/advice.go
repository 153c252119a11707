package httpclient

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// maxValue and maxField bound the length of an instant and of a structured field. farthest bounds a wait.
const (
	maxValue = 64
	maxField = 4096
	farthest = 24 * time.Hour
	unknown  = -1 // a wait that no field has
)

// advice is what a response says about the quota of its request.
type advice struct {
	refused bool
	wait    time.Duration // after a refusal, or until an exhausted quota is full
	named   bool          // the API names the quota, so others of this host can have room
}

// adviceOf reads a response. Instants in it are relative to the clock of the server, if it sends Date. With
// forbidden, a 403 with a wait is a refusal.
func adviceOf(r *http.Response, now time.Time, forbidden bool) advice {
	if date, err := http.ParseTime(r.Header.Get("Date")); err == nil {
		now = date
	}
	a := advice{wait: unknown}
	if r.Header.Get("Age") == "" { // a response with Age is from a cache, so its numbers are old
		a.readQuotas(r, now)
	}
	after := instant(r.Header.Get("Retry-After-Ms")+"ms", now)
	if after < 0 {
		after = instant(r.Header.Get("Retry-After"), now)
	}
	switch r.StatusCode {
	case http.StatusTooManyRequests:
		a.refused = true
	case http.StatusServiceUnavailable:
		a.refused = after >= 0
	case http.StatusForbidden:
		a.refused = forbidden && max(after, a.wait) >= 0
	}
	if a.refused && after >= 0 {
		a.wait = after
	}
	return a
}

// readQuotas reads the longest wait of an exhausted quota in all fields of quotas.
func (a *advice) readQuotas(r *http.Response, now time.Time) {
	read := func(left, reset string) {
		n, ok := decimal(left)
		if ok && n < 1 || left == "" && r.StatusCode == http.StatusTooManyRequests {
			a.wait = max(a.wait, instant(reset, now))
		}
	}
	a.readStructured(r.Header["Ratelimit"], read)
	resets, lefts := map[string]string{}, map[string]string{}
	for field, values := range r.Header {
		switch group, member := groupOf(field); {
		case len(values) == 0:
		case member == "reset":
			resets[group] = values[0]
		case member == "remaining":
			lefts[group] = values[0]
		case member == "name", member == "resource", member == "bucket": // GitLab, GitHub, Discord
			a.named = true
		}
	}
	for group, reset := range resets {
		read(lefts[group], reset)
	}
}

// groupOf splits the name of a field such as X-RateLimit-Reset-Tokens or Anthropic-RateLimit-Tokens-Reset into the quota
// and what the field says about it.
func groupOf(field string) (group, member string) {
	prefix, rest, _ := strings.Cut(strings.Replace(strings.ToLower(field), "rate-limit-", "ratelimit-", 1), "ratelimit-")
	for _, member := range []string{"remaining", "reset", "name", "resource", "bucket"} {
		if before, after, found := strings.Cut("-"+rest+"-", "-"+member+"-"); found {
			return prefix + before + after, member
		}
	}
	return "", ""
}

// readStructured reads RateLimit as a list (draft 8 and later of the RateLimit fields) or as a dictionary (draft 7). It
// ignores a malformed field (RFC 9651, 4.2).
func (a *advice) readStructured(lines []string, read func(left, reset string)) {
	if length := len(strings.Join(lines, ",")); length == 0 || length > maxField {
		return
	}
	list, err := httpsfv.UnmarshalList(lines)
	for _, member := range list {
		if item, ok := member.(httpsfv.Item); ok && err == nil {
			a.named = true
			left, _ := item.Params.Get("r")
			reset, _ := item.Params.Get("t")
			read(fmt.Sprint(left), fmt.Sprint(reset))
		}
	}
	whole, malformed := httpsfv.UnmarshalDictionary(lines)
	if err != nil && malformed == nil {
		left, _ := whole.Get("remaining")
		reset, _ := whole.Get("reset")
		read(bare(left), bare(reset))
	}
}

func bare(member httpsfv.Member) string {
	item, _ := member.(httpsfv.Item)
	return fmt.Sprint(item.Value)
}

// instant returns the time until an instant in a field: a date, milliseconds (above 10^12) or seconds (above 10^9) since
// 1970, or else a delay in seconds or with units.
func instant(value string, now time.Time) time.Duration {
	if len(value) > maxValue {
		return unknown
	}
	if n, ok := decimal(value); ok {
		switch {
		case n > 1e12:
			return until(time.UnixMilli(int64(min(n, 1e15))), now)
		case n > 1e9:
			return until(time.UnixMilli(int64(n*1000)), now)
		}
		return time.Duration(min(n, farthest.Seconds()) * float64(time.Second))
	}
	if d, err := time.ParseDuration(value); err == nil && d >= 0 {
		return min(d, farthest)
	}
	for _, layout := range []string{time.RFC1123, time.RFC1123Z, time.RFC3339, time.RFC850, time.ANSIC} {
		if at, err := time.Parse(layout, value); err == nil {
			return until(at, now)
		}
	}
	return unknown
}

func until(at, now time.Time) time.Duration { return min(max(at.Sub(now), 0), farthest) }

// decimal parses a number of digits with at most one point.
func decimal(value string) (float64, bool) {
	if len(value) > maxValue || strings.Trim(value, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(value, 64)
	return n, err == nil
}
