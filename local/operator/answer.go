package operator

import (
	"math"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// LimitUsage is one limit of a subject, with its usage.
type LimitUsage struct {
	Name string `json:"name"`
	Path string `json:"path"` // place in the rules document, such as "rules[2].limits.free"
	Tier string `json:"tier"` // key of the limit in the rule: a tier, "*" or "global"
	Rule string `json:"rule"` // method, if there is one, and endpoint of the rule
	// MetricsRule is the name of the rule in metrics and log lines (telemetry.RuleName). It is made of Rule, or of Name if
	// the limit counts without an endpoint.
	MetricsRule string `json:"metricsRule"`
	Subject     string `json:"subject"`

	Algorithm      string   `json:"algorithm"`
	Requests       int64    `json:"requests"`
	WindowSeconds  int64    `json:"windowSeconds"`         // length of the window; for a calendar, of the present period
	Period         string   `json:"period,omitempty"`      // unit of a calendar: day, week, month or year
	TimeZone       string   `json:"timeZone,omitempty"`    // time zone of the period
	Anchor         string   `json:"anchor,omitempty"`      // the first day of a week or a month
	Burst          int64    `json:"burst,omitempty"`       // burst of a bucket
	Cost           int64    `json:"cost"`                  // cost of one request, the largest if its body has the reserve
	Count          string   `json:"count,omitempty"`       // cost, failures, bytes or concurrent: Cost is charged until the answer is known
	Reserve        *Reserve `json:"reserve,omitempty"`     // the reserve in the body of a request; nil for a number
	Notify         []int    `json:"notify,omitempty"`      // percentages at which the limit writes a notice
	AcrossTiers    bool     `json:"acrossTiers,omitempty"` // true if the limits of several tiers keep one count
	PartOf         int64    `json:"partOf,omitempty"`      // capacity of a limit with up_to; Requests or Burst is the part of the tier
	Shared         bool     `json:"shared,omitempty"`      // true if regions share the limit
	Mode           string   `json:"mode"`                  // enforce, mark or shadow
	OnError        string   `json:"onError"`               // allow, deny or local
	LocalProcesses int      `json:"localProcesses,omitempty"`
	Lease          int64    `json:"lease,omitempty"`
	Shards         int      `json:"shards,omitempty"`
	SyncMS         int64    `json:"syncMs,omitempty"`
	OtherTier      bool     `json:"otherTier,omitempty"`  // true if the caller has another tier now, so that the limit does not apply
	Overridden     bool     `json:"overridden,omitempty"` // true if an override for the caller sets these numbers
	State          State    `json:"state,omitzero"`
}

// Reserve is a reserve that the body of a request has. A price multiplies it.
type Reserve struct {
	JSON    string `json:"json"`    // the path of the number in the body, or several, joined by |
	Default int64  `json:"default"` // without a number
	Most    int64  `json:"most"`    // also for a body that cannot be read
}

// State is the usage of a limit, in requests, at the instant of the answer.
type State struct {
	// Charged is false if the full quota is available.
	Charged   bool  `json:"charged"`
	Capacity  int64 `json:"capacity"`
	Remaining int64 `json:"remaining"`
	Share     int64 `json:"share,omitempty"` // what this region has of a limit that regions share; Remaining is left of it
	Debt      int64 `json:"debt,omitempty"`  // what was charged beyond Capacity
	// Passes is true if the limit would allow a request of cost Cost now. Otherwise, the limit would
	// allow it after RetryAfterSeconds, or never if Never is true.
	Passes            bool    `json:"passes"`
	RetryAfterSeconds float64 `json:"retryAfterSeconds"`
	Never             bool    `json:"never,omitempty"`
	// FullAt is when the full quota is available again if nothing more is charged.
	FullAt time.Time `json:"fullAt"`
	// Superseded is true if the stored state is from other rules with the same or a higher version. The
	// parameters in the state then decide, and determine Capacity.
	Superseded bool `json:"superseded,omitempty"`
}

// Limits returns the limits of all rules in file order, without subjects and usage.
func Limits(r *rules.Rules, now time.Time) []LimitUsage {
	limits := []LimitUsage{}
	for _, l := range r.Limits() {
		limits = append(limits, newLimit(l, now))
	}
	return limits
}

func newLimit(l rules.Listed, now time.Time) LimitUsage {
	limit, s, c := l.Charge.Limit, l.Charge.Limit.Spread, l.Charge.Limit.Rate.Calendar
	made := LimitUsage{
		Name: limit.Name, Path: l.Path, Tier: l.Tier, Rule: strings.TrimSpace(l.Method + " " + l.Endpoint),
		MetricsRule: telemetry.RuleName(limit.Rule),
		Subject:     l.Charge.Subject.String(),
		Algorithm:   string(limit.Rate.Algorithm), Requests: limit.Rate.Requests, WindowSeconds: int64(limit.WindowAt(now) / time.Second),
		Period: string(c.Period), TimeZone: c.Zone, Anchor: c.Anchor, Burst: limit.Rate.Burst,
		Cost: l.Charge.Cost, Count: string(limit.Count.Of), AcrossTiers: l.AcrossTiers, Shared: l.Shared, Mode: "enforce",
		OnError: limit.OnError.String(), LocalProcesses: limit.LocalProcesses,
		Lease: s.Lease, Shards: s.Shards, SyncMS: s.Sync.Milliseconds(), Overridden: l.Overridden,
	}
	if l.UpTo {
		made.PartOf = limit.Rate.Of
	}
	if limit.Notify != (limiter.Percentages{}) {
		made.Notify = limit.Notify.List()
	}
	switch {
	case limit.Shadow:
		made.Mode = "shadow"
	case limit.Mark:
		made.Mode = "mark"
	}
	if l.From != nil && l.From.Reserve != 0 {
		made.Reserve = &Reserve{JSON: l.From.Paths.Text(l.From.Reserve), Default: l.From.Default, Most: l.From.MostReserve}
	}
	return made
}

func newState(s limiter.Usage, now time.Time) State {
	state := State{
		Charged: s.Known, Capacity: s.Capacity, Remaining: s.Remaining, Share: s.Share, Debt: s.Debt, Passes: s.RetryAfter == 0,
		Never: s.RetryAfter == algo.Never, FullAt: now.Add(s.ResetAfter).UTC(), Superseded: s.Superseded,
	}
	if !state.Never {
		state.RetryAfterSeconds = s.RetryAfter.Seconds()
	}
	return state
}

// wholeSeconds returns a wait in the form of Retry-After.
func wholeSeconds(wait time.Duration) int64 { return max(1, int64(math.Ceil(wait.Seconds()))) }
