package telemetry

import (
	"math/rand/v2"
	"time"

	"github.com/weir-limits/weir/limiter"
)

// These are the kinds of a DecisionLine beside the other classes.
const (
	LineRefused  = string(ClassRefused)
	LineShadowed = "shadowed" // a limit in shadow mode would have refused
)

// IsDecision reports whether kind is the kind of a DecisionLine.
func IsDecision(kind string) bool {
	switch Class(kind) {
	case ClassAllowed, ClassRefused, ClassUnauthorized, ClassFailed, LineShadowed:
		return true
	}
	return false
}

// DecisionLine is a line of the log about decisions. It has no path of a request and no name of a caller.
type DecisionLine struct {
	Kind string    `json:"weir"` // a Class or LineShadowed
	Time time.Time `json:"time"` // when the last of the requests arrived or was refused
	// Subject is the hash of the caller. If it is "", the line counts all callers and limits without a line of their own.
	Subject string `json:"subject,omitempty"`
	// AddressFrom is the source of the address of the last request (caller.Caller.IPFrom); "" if only the host can be.
	AddressFrom string `json:"addressFrom,omitempty"`
	Rule        string `json:"rule,omitempty"` // the rule of the limit as in RuleDimension, such as "GET /api/v1/items/{id}"
	Limit       string `json:"limit,omitempty"`
	Blocked     bool   `json:"blocked,omitempty"` // an operator has blocked the caller, and no limit refused
	// Capacity, Remaining and RetryAfter are those of the last decision. With LineShadowed, Remaining and RetryAfter
	// are 0, and Capacity is that of the limit.
	Capacity   int64          `json:"capacity,omitempty"`
	Remaining  int64          `json:"remaining,omitempty"`
	RetryAfter float64        `json:"retryAfterSeconds,omitempty"`
	Degraded   limiter.Reason `json:"degraded,omitempty"` // why the store did not decide; only of a sampled request
	// Count is the number of requests: exact if they were refused, or would have been. A sampled request stands for as
	// many as Sample has.
	Count int64 `json:"count"`
}

// Sample writes a line for one in oneIn requests that are not refused; 0 means none. Call it before the first request.
func (r *Recorder) Sample(oneIn int) {
	if r != nil {
		r.oneIn = oneIn
	}
}

// sample writes a line for one in r.oneIn requests.
func (r *Recorder) sample(o *Outcome) {
	if r.out == nil || rand.IntN(r.oneIn) > 0 {
		return
	}
	kind, d := o.Class(), &o.Decision
	if kind == ClassRefused {
		return
	}
	line := DecisionLine{
		Kind: string(kind), Time: o.Time.UTC().Truncate(time.Millisecond), Subject: r.hash(o.Caller.Subject()), AddressFrom: o.Caller.IPFrom,
		Degraded: d.Reason, Count: int64(r.oneIn),
	}
	if l := d.Limit; l != nil {
		line.Limit, line.Capacity, line.Remaining = l.Name, d.Capacity, d.Remaining
		if l.Rule != "" {
			line.Rule = RuleName(l.Rule)
		}
	}
	r.writeNow(line)
}

// writeNow writes a line at once.
func (r *Recorder) writeNow(line any) {
	r.writing.Lock()
	defer r.writing.Unlock()
	_ = r.out.Encode(line) // an error of the log cannot be reported anywhere else
}
