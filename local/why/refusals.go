package why

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter/telemetry"
)

// Refusals lists refusals, or what limits in shadow mode would have refused.
type Refusals struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Count is the number of requests of the caller of the question, or of all callers. Others is the number of them that
	// are not in Rows, because the question asked for fewer rows.
	Count  int64 `json:"count"`
	Others int64 `json:"others"`
	// Unnamed is the number of requests in log lines that name no caller: a flood of many callers has them. They are in
	// Count if the question has no caller. Otherwise some of them can be requests of that caller.
	Unnamed int64 `json:"unnamed"`
	Rows    []Row `json:"rows"`
}

// Row counts the refusals of one caller by one limit.
type Row struct {
	Caller  string `json:"caller,omitempty"` // such as user:alice; "" if only the hash is known
	Subject string `json:"subject"`          // hash of the caller
	Rule    string `json:"rule,omitempty"`   // such as "GET /api/v1/items/{id}"
	Limit   string `json:"limit,omitempty"`
	Blocked bool   `json:"blocked,omitempty"` // an operator had blocked the caller, and no limit refused
	Count   int64  `json:"count"`             // number of requests
	// First and Last are the times of the first and the last log line. A line can count several requests of up to a
	// second, and has the time of the last one.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Capacity, Remaining and RetryAfter are those of the last decision. In shadow mode, Remaining and RetryAfter are 0.
	Capacity   int64   `json:"capacity"`
	Remaining  int64   `json:"remaining"`
	RetryAfter float64 `json:"retryAfterSeconds"`
	// AddressFrom is the source of the address of the last request, behind a distribution or a proxy.
	AddressFrom string `json:"addressFrom,omitempty"`
}

// addUnnamed adds requests that no log line names a caller of.
func (a *Refusals) addUnnamed(n int64, caller string) {
	a.Unnamed += n
	if caller == "" {
		a.Count += n
	}
}

// add adds a log line with the caller and the limit of r.
func (r *Row) add(l *telemetry.DecisionLine) {
	r.Count += l.Count
	if r.First.IsZero() || l.Time.Before(r.First) {
		r.First = l.Time
	}
	if !l.Time.Before(r.Last) {
		r.Last, r.Capacity, r.Remaining, r.RetryAfter, r.AddressFrom = l.Time, l.Capacity, l.Remaining, l.RetryAfter, l.AddressFrom
	}
}

// finish sorts the rows and keeps the first ones.
func (a *Refusals) finish(most int) {
	slices.SortFunc(a.Rows, func(x, y Row) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), y.Last.Compare(x.Last), cmp.Compare(x.Subject, y.Subject), cmp.Compare(x.Rule, y.Rule),
			cmp.Compare(x.Limit, y.Limit))
	})
	kept := min(most, len(a.Rows))
	for _, r := range a.Rows[kept:] {
		a.Others += r.Count
	}
	a.Rows = a.Rows[:kept]
}
