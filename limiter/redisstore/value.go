package redisstore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// value is the value of a subject in Redis, which value.lua describes. It is empty if the subject has none.
type value string

// format is the first byte of a value.
const format = "\x04"

// check reports whether v can be read.
func (v value) check() error {
	r, n := v.limitsAfterFormat(), 0
	if v != "" && !strings.HasPrefix(string(v), format) {
		return fmt.Errorf("%w: format %d, want %d", limiter.ErrFormat, v[0], format[0])
	}
	for ; r.rest != ""; n++ {
		r.limit()
	}
	if r.short {
		return fmt.Errorf("%w: limit %d", limiter.ErrFormat, n)
	}
	return nil
}

func (v value) limitsAfterFormat() reader { return reader{rest: string(v[min(1, len(v)):])} }

// limits iterates over the stored limits of v. Call check first.
func (v value) limits(yield func(stored) bool) {
	for r := v.limitsAfterFormat(); r.rest != "" && yield(r.limit()); {
	}
}

func (v value) held(limit *limiter.Limit) (limiter.Held, error) {
	for r := range v.limits {
		if r.id == limit.ID {
			return r.held(limit)
		}
	}
	return limiter.Held{}, nil
}

// current returns the state that decides a charge on limit at the instant now; see [limiter.Held.Current].
func (v value) current(limit *limiter.Limit, now algo.Instant) (current limiter.Held, write bool, err error) {
	held, err := v.held(limit)
	if err != nil {
		return held, false, err
	}
	current, write = held.Current(limit, now)
	return current, write, nil
}

// entries reads every limit of v, in order of ID.
func (v value) entries() ([]limiter.Entry, error) {
	var entries []limiter.Entry
	for r := range v.limits {
		held, err := r.held(nil)
		if err != nil {
			return nil, err
		}
		entries = append(entries, limiter.Entry{ID: r.id, Held: held})
	}
	slices.SortFunc(entries, func(a, b limiter.Entry) int { return cmp.Compare(a.ID, b.ID) })
	return entries, nil
}

// report writes to results the states that v contains after a script.
func (v value) report(charges []limiter.Charge, results []algo.Result) error {
	for i, c := range charges {
		held, err := v.held(c.Limit)
		if err != nil {
			return err
		}
		if held.Machine == nil { // the charge only read a limit that is not stored
			held.Machine = c.Limit.Machine()
		}
		results[i] = c.Limit.View(held.Result)
	}
	return nil
}

// outcome is the result of charges on a value, computed as if this process were the only client of the
// store.
type outcome struct {
	allowed    bool
	next       value // the new value; empty if the value does not change
	superseded bool  // the stored parameters of a limit decide, and the script can charge with them
}

// charge decides whether the states in v allow the charges. It also builds the new value.
func (v value) charge(now algo.Instant, charges []limiter.Charge, results []algo.Result) (o outcome, err error) {
	var settled [limiter.MaxCharges]limiter.Held
	var changed [limiter.MaxCharges]bool
	byHand := false
	for i, c := range charges {
		settled[i], changed[i], err = v.current(c.Limit, now)
		if err != nil {
			return o, err
		}
		results[i] = settled[i].Result
		o.superseded = o.superseded || settled[i].Machine != c.Limit.Machine()
		byHand = byHand || changed[i] || tooMuch(c, settled[i].Machine)
	}
	o.allowed = limiter.TakeAll(now, charges, results)
	o.superseded = o.superseded && o.allowed && !byHand
	next := v
	for i, c := range charges {
		if c.Cost == 0 || !o.allowed && !changed[i] {
			continue
		}
		settled[i].State = results[i].State
		next = next.with(c.Limit.ID, settled[i])
		o.next = next
	}
	return o, nil
}

// settle returns v after corrections: charges with Force are charged, and the others are refunded. It computes
// as if this process were the only client of the store. If nothing changes, it returns v.
func (v value) settle(now algo.Instant, charges []limiter.Charge, results []algo.Result, late time.Duration) (next value,
	settled limiter.Settled, err error) {
	next = v
	for i, c := range charges {
		if c.Cost == 0 {
			continue
		}
		held, err := v.held(c.Limit)
		if c.Force {
			held, _, err = v.current(c.Limit, now)
		}
		if err != nil {
			return "", settled, err
		}
		var given bool
		settled.Excess[i], given = held.Settle(now, results[i], c.Cost, c.Force, late)
		if given {
			settled.Given++
		}
		if given || c.Force {
			next = next.with(c.Limit.ID, held)
		}
	}
	return next, settled, nil
}

// with returns v in which the limit id has the state h.
func (v value) with(id limiter.ID, h limiter.Held) value {
	b, replaced := []byte(format), false
	for r := range v.limits {
		if r.id == id {
			b, replaced = appendHeld(b, id, h), true
		} else {
			b = append(b, r.text...)
		}
	}
	if !replaced {
		b = appendHeld(b, id, h)
	}
	return value(b)
}

// A limit must have full quota for idleLeast before it is removed. Otherwise a process with a fast clock
// could remove state that a process with a slow clock still counts.
const idleLeast = time.Hour

// manyBytes is the size of about 20 limits. In a larger value, the store searches for idle limits. Limits of removed rules
// stay in a value and become idle.
const manyBytes = 1000

// tidied returns v without its idle limits. It returns v if it has only few limits.
func (v value) tidied(now algo.Instant) value {
	if len(v) <= manyBytes {
		return v
	}
	kept := []byte(format)
	for r := range v.limits {
		if h, err := r.held(nil); err != nil || h.Machine.Idle(h.State).Add(idleLeast) > now {
			kept = append(kept, r.text...)
		}
	}
	return value(kept)
}

// ttl returns the time to live in ms of a key that holds v. A limit in v that is not charged can need the
// key for longer than the charged limits. Such a limit can be from newer rules, whose counts must not
// expire because of a charge under older rules.
func (v value) ttl(now algo.Instant, charges []limiter.Charge) int64 {
	given := horizon(charges)
	needed := given
	for r := range v.limits {
		if h, err := r.held(nil); err == nil {
			needed = max(needed, h.Machine.Idle(h.State).Sub(now))
		}
	}
	needed = min(needed, 2*algo.MaxPeriod)
	if needed > given+expiryMargin/2 { // half of the margin covers a small difference, the other half is for clock skew
		return (needed + expiryMargin).Milliseconds()
	}
	return (given + expiryMargin).Milliseconds()
}

func horizon(charges []limiter.Charge) (longest time.Duration) {
	for _, c := range charges {
		longest = max(longest, c.Limit.Horizon)
	}
	return longest
}

// lifetime returns the time to live in ms that a call gives its key at least: the longest horizon of the charged
// limits. seen contains the stored states; newer rules can have given them a longer horizon.
func lifetime(charges []limiter.Charge, seen []algo.Result) int64 {
	longest := horizon(charges)
	for _, r := range seen {
		if r.Machine != nil {
			longest = max(longest, r.Machine.Horizon())
		}
	}
	return (longest + expiryMargin).Milliseconds()
}
