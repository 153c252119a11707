package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// maxRecordLimits bounds the cached limits of callers with records of their own.
const maxRecordLimits = 10_000

// recordLimits caches the limits that records of API keys set. A Limiter recognizes a limit by its
// pointer, so the same record must get the same pointer for each request.
type recordLimits struct {
	mu   sync.Mutex
	made *simplelru.LRU[recordKey, applied]
}

// recordKey identifies a limit of a caller.
type recordKey struct {
	of   *limiter.Limit // the limit that applies without the record
	text string         // limits of the record, as text
}

func newRecordLimits() *recordLimits {
	made, _ := simplelru.NewLRU[recordKey, applied](maxRecordLimits, nil) // NewLRU fails only for a size below 1
	return &recordLimits{made: made}
}

func (c *recordLimits) get(key recordKey, apply func() applied) applied {
	c.mu.Lock()
	defer c.mu.Unlock()
	made, ok := c.made.Get(key)
	if !ok {
		made = apply()
		c.made.Add(key, made)
	}
	return made
}

// countsKey reports whether the subject of this caller in c contains its API key.
func (c *class) countsKey(who *caller.Caller) bool {
	for i := range c.parts {
		if word := c.parts[i].word; word == document.PerAPIKey || word == document.PerClient && who.User == "" {
			return who.APIKey != ""
		}
	}
	return false
}

// applyRecord creates the limit of a caller whose record has limits. The limit of is l or an override of l.
//
// All limits of the record's subject get a higher version, even those whose numbers the record does not set: it may
// have set them before. The version is the sum of the versions of the document and of the record, which grows if
// either grows. Processes with the old and the new record then never convert a stored state back and forth.
func (r *Rules) applyRecord(own *caller.Limits, l *limit, of *limiter.Limit) applied {
	made, mistake, overridden := *of, own.Mistake(), of != l.Limit
	if rate, ok := own.Rate(l.Name); ok {
		var replaced *limiter.Limit
		replaced, mistake = r.replaceByRecord(l.shared, rate, own)
		if mistake == nil {
			made, overridden = *replaced, true
		}
	}
	if anchor := own.AnchorOf(made.Rate.Calendar.Period); anchor != "" && anchor != made.Rate.Calendar.Anchor {
		made.Rate.Calendar.Anchor, overridden = anchor, true
	}
	made.Version += own.Changed()
	made.Horizon = max(made.Horizon, r.ownHorizon(own))
	limit, err := limiter.NewLimit(made)
	if err != nil {
		return applied{of, of != l.Limit, err}
	}
	return applied{limit, overridden, mistake}
}

func (r *Rules) replaceByRecord(base *identified, rate caller.Rate, own *caller.Limits) (*limiter.Limit, error) {
	name, of := base.Name, base.spec.Rate
	switch {
	case of.Calendar.Period != "" && rate.Window != 0:
		_, window, _ := strings.Cut(rate.String(), "/")
		return nil, fmt.Errorf("limit %s: got the window %s, want only a number: the limit has the period %s", name, window, of.Calendar.Period)
	case base.spec.Spread != limiter.Spread{}:
		return nil, fmt.Errorf("limit %s: has lease, shards or sync_ms in the rules; a record cannot set such a limit", name)
	case of.Algorithm.Logs() && rate.Requests > base.Rate.Requests:
		return nil, fmt.Errorf("limit %s: got %d requests, want at most %d: a sliding_log must fit its item", name, rate.Requests,
			base.Rate.Requests)
	}
	made, _, problem := r.replace(base, "limit "+name, ownNumbers(of, rate, own))
	if problem != nil {
		return nil, errors.New(problem.String())
	}
	return made, nil
}

// ownNumbers returns the rate that a record sets for a limit. of is the rate of the limit without the record.
func ownNumbers(of algo.Rate, rate caller.Rate, own *caller.Limits) algo.Rate {
	return algo.Rate{Requests: rate.Requests, Window: rate.Window, Calendar: algo.Calendar{Anchor: own.AnchorOf(of.Calendar.Period)}}
}

// ownHorizon returns the longest time for which a store keeps a limit of a record. All limits of the
// caller's subject get this horizon, because a charge on one limit must not make the count of another
// limit expire.
func (r *Rules) ownHorizon(own *caller.Limits) (longest time.Duration) {
	for _, name := range own.Names() {
		rate, _ := own.Rate(name)
		for _, base := range r.named[name] {
			longest = max(longest, horizon(inherit(base.spec.Rate, ownNumbers(base.spec.Rate, rate, own))))
		}
	}
	return longest
}

// CheckLimits returns an error if the limits of an API key's record do not fit the rules. The error names
// every mistake.
func (r *Rules) CheckLimits(own *caller.Limits) error {
	if err := own.Mistake(); err != nil {
		return err
	}
	var problems []error
	for _, name := range own.Names() {
		rate, _ := own.Rate(name)
		problems = append(problems, r.checkRate(name, rate, own))
	}
	anchored := own.Anchor() == ""
	for _, list := range r.named {
		for _, base := range list {
			anchored = anchored || r.classes[base.class].countsBy(document.PerAPIKey) && own.AnchorOf(base.spec.Rate.Calendar.Period) != ""
		}
	}
	if !anchored {
		problems = append(problems, fmt.Errorf("anchor: got %s, but no limit by API key or client has a period that begins on such a day",
			own.Anchor()))
	}
	return errors.Join(problems...)
}

func (r *Rules) checkRate(name string, rate caller.Rate, own *caller.Limits) error {
	if len(r.named[name]) == 0 {
		return fmt.Errorf("limit %s: the rules have no limit of this name%s", name, document.DidYouMean(name, r.keyLimits()))
	}
	counted := r.countedBy(document.PerAPIKey, name)
	if len(counted) == 0 {
		return fmt.Errorf("limit %s: does not count by API key or client; want one of %s", name, quoteAll(r.keyLimits()))
	}
	for _, base := range counted {
		if _, err := r.replaceByRecord(base, rate, own); err != nil {
			return err
		}
	}
	return nil
}

// keyLimits returns the names of the limits that can count by API key, sorted.
func (r *Rules) keyLimits() (names []string) {
	for name := range r.named {
		if len(r.countedBy(document.PerAPIKey, name)) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// UnknownLimits returns the names in a record for which the rules have no limit. Requests ignore them.
func (r *Rules) UnknownLimits(own *caller.Limits) (unknown []string) {
	for _, name := range own.Names() {
		if len(r.named[name]) == 0 {
			unknown = append(unknown, name)
		}
	}
	return unknown
}
