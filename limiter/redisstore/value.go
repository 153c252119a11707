package redisstore

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// format is the version of the value's layout: its first byte, and part of the key.
const format = 1

// The layout of a value after its first byte: one record a limit, integers little
// endian. A script copies a limit's 17 bytes without looking inside.
const (
	idSize       = 5
	limitSize    = idSize + 1 + 7 + 4 // id, kind, length in ns, capacity
	recordSize   = limitSize + 6 + 13 // and version, state
	kindOffset   = idSize
	lengthOffset = kindOffset + 1
	capOffset    = lengthOffset + 7
)

// The kinds of machine.
const (
	kindBucket  = 1
	kindSliding = 2
	kindFixed   = 3
)

// value is what Redis holds of a subject; empty if nothing.
type value []byte

// check reports whether v can be read.
func (v value) check() error {
	switch {
	case len(v) == 0:
	case v[0] != format:
		return fmt.Errorf("%w: format %d, want %d", limiter.ErrFormat, v[0], format)
	case (len(v)-1)%recordSize != 0:
		return fmt.Errorf("%w: %d bytes", limiter.ErrFormat, len(v))
	}
	return nil
}

// find returns the record of the limit id, nil if there is none.
func (v value) find(id limiter.ID) []byte {
	for at := 1; at < len(v); at += recordSize {
		if record := v[at : at+recordSize]; limiter.ID(integer(record[:idSize])) == id {
			return record
		}
	}
	return nil
}

// held reads what v holds of limit.
func (v value) held(limit *limiter.Limit) (limiter.Held, error) {
	record := v.find(limit.ID)
	if record == nil {
		return limiter.Held{}, nil
	}
	var own [limitSize]byte
	if string(appendLimit(own[:0], limit.ID, limit.Machine())) == string(record[:limitSize]) {
		return read(record, limit.Machine()), nil
	}
	return parse(record)
}

// parse reads a record of any limit.
func parse(record []byte) (limiter.Held, error) {
	kinds := map[byte]string{kindBucket: "bucket", kindSliding: "sliding", kindFixed: "fixed"}
	length := time.Duration(integer(record[lengthOffset:capOffset]))
	machine, err := algo.Parse(fmt.Sprintf("%s/%s/%d", kinds[record[kindOffset]], length, integer(record[capOffset:limitSize])))
	if err != nil {
		return limiter.Held{}, fmt.Errorf("%w: %w", limiter.ErrFormat, err)
	}
	return read(record, machine), nil
}

// read reads a record whose parameters are those of m.
func read(record []byte, m algo.Machine) limiter.Held {
	h := limiter.Held{Result: limiter.Result{Machine: m}, Version: integer(record[limitSize : limitSize+6])}
	state := record[limitSize+6:]
	a, b, c := integer(state[:5]), integer(state[5:9]), integer(state[9:13])
	if _, ok := m.(*algo.Bucket); ok {
		h.State = algo.State{TAT: algo.Instant(a*int64(time.Second) + b), Refunds: c}
	} else {
		h.State = algo.State{Window: a, Count: b, Previous: c}
	}
	return h
}

// report writes the states that a script left to results.
func (v value) report(charges []limiter.Charge, results []limiter.Result) error {
	for i, c := range charges {
		held, err := v.held(c.Limit)
		if err != nil {
			return err
		}
		if held.Machine == nil { // looked at, and never charged
			held.Machine = c.Limit.Machine()
		}
		results[i] = held.Result
	}
	return nil
}

// charge decides charges from v, as a store that nobody else uses would. next is the
// value that must replace v for that to be true; nil if v may stay.
func (v value) charge(now algo.Instant, charges []limiter.Charge, results []limiter.Result) (next value, allowed bool, err error) {
	var settled [limiter.MaxCharges]limiter.Held
	var charged [limiter.MaxCharges]algo.State
	var changed [limiter.MaxCharges]bool
	allowed = true
	for i, c := range charges {
		held, err := v.held(c.Limit)
		if err != nil {
			return nil, false, err
		}
		var ok bool
		settled[i], changed[i] = held.Settle(c.Limit, now)
		charged[i], ok = settled[i].Machine.Take(settled[i].State, now, c.Cost)
		results[i] = settled[i].Result
		allowed = allowed && ok
	}
	for i, c := range charges {
		if c.Cost == 0 || !allowed && !changed[i] {
			continue
		}
		if allowed {
			settled[i].State = charged[i]
			results[i] = settled[i].Result
		}
		if next == nil {
			next = slices.Clone(v)
		}
		next = next.with(c.Limit.ID, settled[i])
	}
	return next, allowed, nil
}

// with returns v with the record of the limit id replaced, or added. It writes to v.
func (v value) with(id limiter.ID, h limiter.Held) value {
	if len(v) == 0 {
		v = value{format}
	}
	if record := v.find(id); record != nil {
		appendRecord(record[:0], id, h)
		return v
	}
	return appendRecord(v, id, h)
}

// idleLeast is how long a limit has been at full quota before its record is removed:
// a clock that runs ahead would otherwise remove what one that runs behind still
// counts.
const idleLeast = time.Hour

// manyRecords is from how many records on it is worth looking for idle ones: those
// of limits that rules had and no longer have.
const manyRecords = 2 * limiter.MaxCharges

// tidied returns v without its idle records, nil if it has none, or few records.
func (v value) tidied(now algo.Instant) value {
	if len(v) <= manyRecords*recordSize {
		return nil
	}
	kept := value{format}
	for at := 1; at < len(v); at += recordSize {
		record := v[at : at+recordSize]
		if h, err := parse(record); err != nil || h.Machine.Idle(h.State).Add(idleLeast) > now {
			kept = append(kept, record...)
		}
	}
	if len(kept) == len(v) {
		return nil
	}
	return kept
}

func appendRecord(b []byte, id limiter.ID, h limiter.Held) []byte {
	b = appendInteger(appendLimit(b, id, h.Machine), h.Version, 6)
	if _, ok := h.Machine.(*algo.Bucket); ok {
		b = appendInstant(b, h.State.TAT)
		return appendInteger(b, h.State.Refunds, 4)
	}
	b = appendInteger(b, h.State.Window, 5)
	b = appendInteger(b, h.State.Count, 4)
	return appendInteger(b, h.State.Previous, 4)
}

// appendLimit appends what a limit is: its id and its parameters.
func appendLimit(b []byte, id limiter.ID, m algo.Machine) []byte {
	b = appendInteger(b, int64(id), idSize)
	b = append(b, kindOf(m))
	length := time.Duration(0)
	switch m := m.(type) {
	case *algo.Bucket:
		length = m.Interval
	case *algo.Window:
		length = m.Length
	}
	b = appendInteger(b, int64(length), 7)
	return appendInteger(b, m.Capacity(), 4)
}

func kindOf(m algo.Machine) byte {
	w, ok := m.(*algo.Window)
	switch {
	case !ok:
		return kindBucket
	case w.Sliding:
		return kindSliding
	}
	return kindFixed
}

// appendInstant appends seconds in 5 bytes and nanoseconds in 4.
func appendInstant[T ~int64](b []byte, i T) []byte {
	return appendInteger(appendInteger(b, int64(i)/int64(time.Second), 5), int64(i)%int64(time.Second), 4)
}

// appendInteger appends the lowest size bytes of n.
func appendInteger(b []byte, n int64, size int) []byte {
	var full [8]byte
	binary.LittleEndian.PutUint64(full[:], uint64(n))
	return append(b, full[:size]...)
}

func integer(b []byte) int64 {
	var full [8]byte
	copy(full[:], b)
	return int64(binary.LittleEndian.Uint64(full[:]))
}
