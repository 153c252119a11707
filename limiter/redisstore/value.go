package redisstore

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// format is the version of the value's layout: its first byte.
const format = 2

// The layout of a value: format, number of limits, a version of rules, and the limits; take.lua
// describes them. Integers and instants are big endian; the scripts read instants in two halves.
const (
	headerSize = 2 + versionSize
	maxLimits  = 255
)

// value is the value of a subject in Redis. It is empty if the subject has none.
type value []byte

// version returns the version of the rules that applies to limits without a version element of their own.
func (v value) version() int64 { return integer(v[2:headerSize]) }

// check reports whether v can be read.
func (v value) check() error {
	switch {
	case len(v) == 0:
		return nil
	case v[0] != format:
		return fmt.Errorf("%w: format %d, want %d", limiter.ErrFormat, v[0], format)
	case len(v) < headerSize:
		return fmt.Errorf("%w: %d bytes", limiter.ErrFormat, len(v))
	}
	n := 0
	for rest := []byte(v[headerSize:]); len(rest) > 0; n++ {
		var ok bool
		_, rest, ok = cut(rest, 0)
		if !ok {
			return fmt.Errorf("%w: limit %d of %d", limiter.ErrFormat, n+1, v[1])
		}
	}
	if n != int(v[1]) {
		return fmt.Errorf("%w: %d limits, want %d", limiter.ErrFormat, n, v[1])
	}
	return nil
}

// limits iterates over the stored limits of v. Call check first.
func (v value) limits(yield func(stored) bool) {
	if len(v) == 0 {
		return
	}
	for rest := []byte(v[headerSize:]); len(rest) > 0; {
		var r stored
		r, rest, _ = cut(rest, v.version())
		if !yield(r) {
			return
		}
	}
}

func (v value) held(limit *limiter.Limit) (limiter.Held, error) {
	for r := range v.limits {
		if r.id() == limit.ID {
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
		held, err := r.parse()
		if err != nil {
			return nil, err
		}
		entries = append(entries, limiter.Entry{ID: r.id(), Held: held})
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
		results[i] = held.Result
	}
	return nil
}

// outcome is the result of charges on a value, computed as if this process were the only client of the
// store.
type outcome struct {
	allowed    bool
	next       value // the new value; nil if the value does not change
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
	for i, c := range charges {
		if c.Cost == 0 || !o.allowed && !changed[i] {
			continue
		}
		settled[i].State = results[i].State
		if o.next == nil {
			o.next = slices.Clone(v)
		}
		o.next, err = o.next.with(c.Limit.ID, settled[i])
		if err != nil {
			return o, err
		}
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
			return nil, settled, err
		}
		var given bool
		settled.Excess[i], given = held.Settle(now, results[i], c.Cost, c.Force, late)
		if given {
			settled.Given++
		} else if !c.Force {
			continue
		}
		next, err = next.with(c.Limit.ID, held)
		if err != nil {
			return nil, settled, err
		}
	}
	return next, settled, nil
}

// with returns a copy of v in which the limit id has the state h.
func (v value) with(id limiter.ID, h limiter.Held) (value, error) {
	var list []stored
	replaced := false
	for r := range v.limits {
		if r.id() == id {
			r, replaced = newStored(id, h), true
		}
		list = append(list, r)
	}
	if !replaced {
		list = append(list, newStored(id, h))
	}
	if len(list) > maxLimits {
		// ErrContended denies the request under every OnError
		return nil, fmt.Errorf("%w: too many limits on one subject (want at most %d)", limiter.ErrContended, maxLimits)
	}
	return newValue(list), nil
}

func newValue(list []stored) value {
	version := int64(0)
	if len(list) > 0 {
		version = list[0].version
	}
	v := appendInteger([]byte{format, byte(len(list))}, version, versionSize)
	for _, r := range list {
		v = r.append(v, version)
	}
	return v
}

// A limit must have full quota for idleLeast before it is removed. Otherwise a process with a fast clock
// could remove state that a process with a slow clock still counts.
const idleLeast = time.Hour

// manyLimits is the smallest number of limits at which the store searches a value for idle limits.
// Limits of removed rules stay in a value and become idle.
const manyLimits = 2 * limiter.MaxCharges

// tidied returns v without its idle limits. It returns nil if v has no idle limits or only few
// limits.
func (v value) tidied(now algo.Instant) value {
	if len(v) < headerSize || int(v[1]) <= manyLimits {
		return nil
	}
	var kept []stored
	for r := range v.limits {
		h, err := r.parse()
		if err != nil || h.Machine.Idle(h.State).Add(idleLeast) > now {
			kept = append(kept, r)
		}
	}
	if len(kept) == int(v[1]) {
		return nil
	}
	return newValue(kept)
}
