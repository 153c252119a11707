package httpclient

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// These are the header fields that a Transport reads.
const (
	retryAfterField = "Retry-After"
	policyField     = "RateLimit-Policy"
	rateLimitField  = "RateLimit"
	limitField      = "X-RateLimit-Limit"
	remainingField  = "X-RateLimit-Remaining"
	resetField      = "X-RateLimit-Reset"
)

// maxField bounds the length of a header field. farthest bounds a wait in a field, because some APIs
// wrongly write an instant in Unix seconds into Retry-After.
const (
	maxField = 4096
	farthest = 24 * time.Hour
)

type advice struct {
	refused bool
	wait    time.Duration // the wait after a refusal; -1 means unknown
	name    string        // name of the policy and its partition; "" without a policy

	known    bool          // the fields below are set
	left     int64         // remaining requests
	reset    time.Duration // time until the quota is full again
	capacity int64         // capacity of the quota; math.MaxInt64 means unknown
}

func adviceOf(r *http.Response, now time.Time) advice {
	a := advice{wait: -1, capacity: math.MaxInt64}
	// Dates in a response are relative to the clock of the server.
	if date, err := http.ParseTime(r.Header.Get("Date")); err == nil {
		now = date
	}
	if limit, ok := number(r.Header.Get(limitField)); ok && limit > 0 {
		a.capacity = limit
	}
	if r.Header.Get("Age") == "" { // a response with Age is from a cache, so its numbers are old
		a.readStructured(r.Header)
		if !a.known {
			a.readCommon(r.Header, now)
		}
	}
	wait := retryAfter(r.Header.Get(retryAfterField), now)
	switch {
	case r.StatusCode == http.StatusTooManyRequests, r.StatusCode == http.StatusServiceUnavailable && wait >= 0:
		a.refused, a.wait = true, wait
		if wait < 0 && a.known && a.left == 0 {
			a.wait = a.reset
		}
	}
	return a
}

// retryAfter parses Retry-After (RFC 9110, 10.2.3). It returns -1 if the field is missing or
// malformed.
func retryAfter(value string, now time.Time) time.Duration {
	if n, ok := number(value); ok {
		return seconds(n)
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), farthest)
	}
	return -1
}

// readStructured reads the fields of the draft. If there are several quotas, it reads the quota with the
// lowest remaining rate. It ignores a malformed field (RFC 9651, 4.2).
func (a *advice) readStructured(h http.Header) {
	capacities := map[string]int64{}
	for _, p := range items(h, policyField) {
		if unit, ok := p.Params.Get("qu"); ok && unit != "requests" {
			capacities[name(p)] = -1
		} else if q, ok := count(p, "q"); ok {
			capacities[name(p)] = q
		}
	}
	limit, slowest := a.capacity, time.Duration(-1)
	for _, item := range items(h, rateLimitField) {
		left, ok := count(item, "r")
		capacity, given := capacities[name(item)]
		if !ok || capacity < 0 {
			continue
		}
		reset, timed := count(item, "t")
		if pace := seconds(reset) / time.Duration(min(left, math.MaxInt64-1)+1); timed && pace > slowest {
			slowest = pace
			a.known, a.name, a.left, a.reset, a.capacity = true, name(item), left, seconds(reset), limit
			if given && capacity > 0 {
				a.capacity = min(limit, capacity) // the capacity of a bucket can be below the number of requests in its window
			}
		}
	}
}

// readCommon reads the X-RateLimit fields, which are not standardized. A reset is a number of seconds
// or an instant in Unix seconds.
func (a *advice) readCommon(h http.Header, now time.Time) {
	left, ok := number(h.Get(remainingField))
	reset, timed := number(h.Get(resetField))
	if !ok || !timed {
		return
	}
	a.known, a.left, a.reset = true, left, seconds(reset)
	if reset > int64(farthest/time.Second) {
		a.reset = min(max(time.Unix(reset, 0).Sub(now), 0), farthest)
	}
}

// items returns the items of a field that is a list of strings. It returns none if the field is
// malformed.
func items(h http.Header, field string) (all []httpsfv.Item) {
	length := 0
	for _, line := range h.Values(field) {
		length += len(line)
	}
	if length == 0 || length > maxField {
		return nil
	}
	list, err := httpsfv.UnmarshalList(h.Values(field))
	if err != nil {
		return nil
	}
	for _, member := range list {
		if item, ok := member.(httpsfv.Item); ok {
			if _, ok := item.Value.(string); ok {
				all = append(all, item)
			}
		}
	}
	return all
}

// name returns the policy of an item and its partition, if it has one.
func name(item httpsfv.Item) string {
	policy, _ := item.Value.(string)
	key, _ := item.Params.Get("pk")
	partition, _ := key.([]byte)
	return strconv.Itoa(len(policy)) + policy + string(partition)
}

// count returns the value of a parameter. It returns false if the value is not an integer of at least 0.
func count(item httpsfv.Item, parameter string) (int64, bool) {
	value, _ := item.Params.Get(parameter)
	n, ok := value.(int64)
	return n, ok && n >= 0
}

// number parses a number that consists of decimal digits only.
func number(value string) (int64, bool) {
	if strings.Trim(value, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(value, 10, 64)
	return n, err == nil
}

// seconds returns n seconds, at most farthest.
func seconds(n int64) time.Duration {
	return time.Duration(min(n, int64(farthest/time.Second))) * time.Second
}
