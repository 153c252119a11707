package limiter

import (
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// request is one decision in the making. Its slices are reused.
type request struct {
	at      time.Time
	now     algo.Instant
	charges []Charge // grouped by subject, in order of first appearance
	results []Result // one per charge
	parts   []part
}

// part is the charges of one subject: one step of the store.
type part struct {
	charges []Charge
	results []Result
	taken   bool
	refused bool
	err     error
}

// arrange groups charges by subject.
func (r *request) arrange(charges []Charge) {
	r.charges, r.parts = r.charges[:0], r.parts[:0]
	for i, c := range charges {
		if slices.ContainsFunc(charges[:i], func(b Charge) bool { return b.Subject == c.Subject }) {
			continue
		}
		for _, same := range charges[i:] {
			if same.Subject == c.Subject {
				r.charges = append(r.charges, same)
			}
		}
	}
	if cap(r.results) < len(r.charges) {
		r.results = make([]Result, len(r.charges))
	}
	r.results = r.results[:len(r.charges)]
	clear(r.results)
	for from := 0; from < len(r.charges); {
		to := from + 1
		for to < len(r.charges) && r.charges[to].Subject == r.charges[from].Subject {
			to++
		}
		r.parts = append(r.parts, part{charges: r.charges[from:to:to], results: r.results[from:to:to]})
		from = to
	}
}

func (r *request) refused() bool {
	return slices.ContainsFunc(r.parts, func(p part) bool { return p.refused })
}

func (r *request) taken() bool {
	return slices.ContainsFunc(r.parts, func(p part) bool { return p.taken })
}

// decision folds the parts: any refusal wins, then the failure of a store, which
// admits.
func (r *request) decision(remembered bool) Decision {
	d := Decision{Allowed: !r.refused(), At: r.at, Remembered: remembered}
	for i := range r.parts {
		p := &r.parts[i]
		if p.err != nil {
			d.Reason = reasonOf(p.err)
			continue
		}
		if p.refused == d.Allowed {
			continue
		}
		for j, c := range p.charges {
			if p.results[j].Machine != nil {
				d.speak(c.Limit, p.results[j], r.now, c.Cost)
			}
		}
	}
	if d.RetryAfter == algo.Never {
		d.RetryAfter = 0
	}
	return d
}
