package redisstore

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// format is the version of the value's layout: its first byte, and part of the key.
const format = 1

// The layout of a value: format, number of limits, one record per limit, and the entries of logs in
// the order of their records. Integers and instants are big endian; the scripts read instants in two
// halves. A script copies the 17 bytes that identify a limit without reading them.
const (
	headerSize   = 2
	idSize       = 5
	kindOffset   = idSize
	lengthOffset = kindOffset + 1
	capOffset    = lengthOffset + 7
	limitSize    = capOffset + 4 // id, kind, length in ns, capacity
	stateOffset  = limitSize + 6 // after the version
	recordSize   = stateOffset + 12
	entrySize    = 8
	maxLimits    = 255
)

// The kinds of machine.
const (
	kindBucket = 1 + iota
	kindSliding
	kindFixed
	kindLog
	// kindMark marks a record that is the mark of a limit, not a machine. The limit's own record has
	// the same ID and comes before it. The scripts use that record and do not change the mark. After
	// the kind, a mark has two integers of eight bytes, then zeros.
	kindMark
)

// value is the value of a subject in Redis; empty if there is none.
type value []byte

// check reports whether v can be read.
func (v value) check() error {
	switch {
	case len(v) == 0:
		return nil
	case v[0] != format:
		return fmt.Errorf("%w: format %d, want %d", limiter.ErrFormat, v[0], format)
	case len(v) < headerSize || len(v) < headerSize+int(v[1])*recordSize:
		return fmt.Errorf("%w: %d bytes", limiter.ErrFormat, len(v))
	}
	size := headerSize + int(v[1])*recordSize
	for r := range v.records {
		size += r.entriesSize()
	}
	if size != len(v) {
		return fmt.Errorf("%w: %d bytes, want %d", limiter.ErrFormat, len(v), size)
	}
	return nil
}

// record is one limit in a value. Its slices are parts of the value.
type record struct{ fixed, entries []byte }

func (r record) id() limiter.ID { return limiter.ID(integer(r.fixed[:idSize])) }

// entriesSize returns the size in bytes of the entries of a record, according to the record.
func (r record) entriesSize() int {
	if r.fixed[kindOffset] != kindLog {
		return 0
	}
	return int(integer(r.fixed[recordSize-4:])) * entrySize
}

// records iterates over the records of v.
func (v value) records(yield func(record) bool) {
	if len(v) == 0 {
		return
	}
	entries := v[headerSize+int(v[1])*recordSize:]
	for i := range int(v[1]) {
		r := record{fixed: v[headerSize+i*recordSize:][:recordSize]}
		n := min(len(entries), r.entriesSize()) // fewer bytes are possible only before check
		r.entries, entries = entries[:n], entries[n:]
		if !yield(r) {
			return
		}
	}
}

// held returns the state of limit in v.
func (v value) held(limit *limiter.Limit) (limiter.Held, error) {
	var h limiter.Held
	for r := range v.records {
		if r.id() != limit.ID {
			continue
		}
		if r.isMark() {
			if h.Machine == nil {
				return h, errMark
			}
			h.Mark = r.mark()
			continue
		}
		var own [limitSize]byte
		if string(appendLimit(own[:0], limit.ID, limit.Machine())) == string(r.fixed[:limitSize]) {
			h = r.read(limit.Machine())
			continue
		}
		var err error
		if h, err = r.parse(); err != nil {
			return h, err
		}
	}
	return h, nil
}

var errMark = fmt.Errorf("%w: a mark without a limit before it", limiter.ErrFormat)

func (r record) isMark() bool { return r.fixed[kindOffset] == kindMark }

// mark reads a record of a mark.
func (r record) mark() algo.Mark {
	b := r.fixed[lengthOffset:]
	return algo.Mark{Since: algo.Instant(integer(b[:8])), Newest: integer(b[8:16])}
}

func newMark(id limiter.ID, k algo.Mark) record {
	b := appendInteger(make([]byte, 0, recordSize), int64(id), idSize)
	b = appendIntegers(append(b, kindMark), 8, int64(k.Since), k.Newest)
	return record{fixed: b[:recordSize]}
}

// entries reads every limit of v, in order of ID.
func (v value) entries() ([]limiter.Entry, error) {
	var entries []limiter.Entry
	for r := range v.records {
		if r.isMark() {
			n := len(entries)
			if n == 0 || entries[n-1].ID != r.id() {
				return nil, errMark
			}
			entries[n-1].Mark = r.mark()
			continue
		}
		held, err := r.parse()
		if err != nil {
			return nil, err
		}
		entries = append(entries, limiter.Entry{ID: r.id(), Held: held})
	}
	slices.SortFunc(entries, func(a, b limiter.Entry) int { return cmp.Compare(a.ID, b.ID) })
	return entries, nil
}

// parse reads a record of any limit.
func (r record) parse() (limiter.Held, error) {
	kinds := [...]string{kindBucket: "bucket", kindSliding: "sliding", kindFixed: "fixed", kindLog: "log"}
	kind := int(r.fixed[kindOffset])
	if kind >= len(kinds) {
		return limiter.Held{}, fmt.Errorf("%w: kind %d", limiter.ErrFormat, kind)
	}
	length := time.Duration(integer(r.fixed[lengthOffset:capOffset]))
	machine, err := algo.Parse(fmt.Sprintf("%s/%s/%d", kinds[kind], length, integer(r.fixed[capOffset:limitSize])))
	if err != nil {
		return limiter.Held{}, fmt.Errorf("%w: %w", limiter.ErrFormat, err)
	}
	return r.read(machine), nil
}

// read reads a record whose parameters are those of m.
func (r record) read(m algo.Machine) limiter.Held {
	h := limiter.Held{Result: algo.Result{Machine: m}, Version: integer(r.fixed[limitSize:stateOffset])}
	state := r.fixed[stateOffset:]
	switch m.(type) {
	case *algo.Bucket:
		h.State = algo.State{TAT: algo.Instant(integer(state[:8])), Refunds: integer(state[8:])}
	case *algo.Window:
		h.State = algo.State{Window: integer(state[:4]), Count: integer(state[4:8]), Previous: integer(state[8:])}
	case *algo.Log:
		h.State = algo.State{Newest: algo.Instant(integer(state[:8])), Entries: algo.Entries(r.entries)}
	}
	return h
}

// idle returns the instant from which the record counts nothing, like algo.Machine.Idle. Every
// decision calls it, so it creates no Machine.
func (r record) idle() algo.Instant {
	length, state := integer(r.fixed[lengthOffset:capOffset]), r.fixed[stateOffset:]
	switch r.fixed[kindOffset] {
	case kindBucket:
		return algo.Instant(integer(state[:8]))
	case kindLog:
		return algo.Instant(integer(state[:8]) + length)
	case kindMark:
		return 0
	}
	return algo.Instant((integer(state[:4]) + 2) * length)
}

// report writes the states that a script left to results.
func (v value) report(charges []limiter.Charge, results []algo.Result) error {
	for i, c := range charges {
		held, err := v.held(c.Limit)
		if err != nil {
			return err
		}
		if held.Machine == nil { // a limit that was read but never charged
			held.Machine = c.Limit.Machine()
		}
		results[i] = held.Result
	}
	return nil
}

// outcome is the result of charges on a value, as if the store had no other client.
type outcome struct {
	allowed    bool
	next       value // must replace the value; nil if the value stays
	superseded bool  // the parameters of other rules decide, and the script can make the charges
}

// charge decides charges from v.
func (v value) charge(now algo.Instant, charges []limiter.Charge, results []algo.Result) (o outcome, err error) {
	var settled [limiter.MaxCharges]limiter.Held
	var charged [limiter.MaxCharges]algo.State
	var changed [limiter.MaxCharges]bool
	o.allowed = true
	byHand := false
	for i, c := range charges {
		held, err := v.held(c.Limit)
		if err != nil {
			return o, err
		}
		var ok bool
		settled[i], changed[i] = held.Settle(c.Limit, now)
		charged[i], ok = c.Apply(settled[i].Machine, settled[i].State, now)
		results[i] = settled[i].Result
		o.allowed = o.allowed && ok
		o.superseded = o.superseded || settled[i].Machine != c.Limit.Machine()
		byHand = byHand || changed[i] || tooMuch(c, settled[i].Machine)
	}
	o.superseded = o.superseded && o.allowed && !byHand
	for i, c := range charges {
		if c.Cost == 0 || !o.allowed && !changed[i] {
			continue
		}
		if o.allowed {
			settled[i].State = charged[i]
			results[i] = settled[i].Result
		}
		if o.next == nil {
			o.next = slices.Clone(v)
		}
		if o.next, err = o.next.with(c.Limit.ID, settled[i]); err != nil {
			return o, err
		}
	}
	return o, nil
}

// with returns a value like v in which the record of the limit id is h.
func (v value) with(id limiter.ID, h limiter.Held) (value, error) {
	var list []record
	replaced := false
	for r := range v.records {
		switch {
		case r.id() != id:
			list = append(list, r)
		case !r.isMark():
			list, replaced = appendHeld(list, id, h), true
		}
	}
	if !replaced {
		list = appendHeld(list, id, h)
	}
	if len(list) > maxLimits {
		return nil, fmt.Errorf("%w: too many limits on one subject (want at most %d)", limiter.ErrContended, maxLimits) // this error never opens a limit, whatever OnError is
	}
	return newValue(list), nil
}

// appendHeld appends the records of h.
func appendHeld(list []record, id limiter.ID, h limiter.Held) []record {
	list = append(list, newRecord(id, h))
	if h.Mark != (algo.Mark{}) {
		list = append(list, newMark(id, h.Mark))
	}
	return list
}

func newValue(list []record) value {
	v := value{format, byte(len(list))}
	for _, r := range list {
		v = append(v, r.fixed...)
	}
	for _, r := range list {
		v = append(v, r.entries...)
	}
	return v
}

// idleLeast is how long a limit must have full quota before its record is removed. Otherwise a process
// with a fast clock could remove state that a process with a slow clock still counts.
const idleLeast = time.Hour

// manyLimits is the smallest number of limits for which the store searches a value for idle limits.
// Removed rules leave such limits.
const manyLimits = 2 * limiter.MaxCharges

// tidied returns v without its idle records; nil if it has none, or few records.
func (v value) tidied(now algo.Instant) value {
	if len(v) < headerSize || int(v[1]) <= manyLimits {
		return nil
	}
	var kept []record
	stays := false // the limit before a mark
	for r := range v.records {
		if !r.isMark() {
			h, err := r.parse()
			stays = err != nil || h.Machine.Idle(h.State).Add(idleLeast) > now
		}
		if stays {
			kept = append(kept, r)
		}
	}
	if len(kept) == int(v[1]) {
		return nil
	}
	return newValue(kept)
}

func newRecord(id limiter.ID, h limiter.Held) record {
	b := appendLimit(make([]byte, 0, recordSize), id, h.Machine)
	b = appendInteger(b, h.Version, 6)
	switch h.Machine.(type) {
	case *algo.Bucket:
		b = appendInteger(appendInteger(b, int64(h.State.TAT), 8), h.State.Refunds, 4)
	case *algo.Window:
		b = appendInteger(appendInteger(appendInteger(b, h.State.Window, 4), h.State.Count, 4), h.State.Previous, 4)
	case *algo.Log:
		b = appendInteger(appendInteger(b, int64(h.State.Newest), 8), int64(h.State.Entries.Len()), 4)
	}
	return record{b, []byte(h.State.Entries)}
}

// appendLimit appends the identity of a limit: its id and its parameters.
func appendLimit(b []byte, id limiter.ID, m algo.Machine) []byte {
	b = appendInteger(b, int64(id), idSize)
	kind, length := kindOf(m)
	b = append(b, kind)
	b = appendInteger(b, int64(length), 7)
	return appendInteger(b, m.Capacity(), 4)
}

func kindOf(m algo.Machine) (kind byte, length time.Duration) {
	switch m := m.(type) {
	case *algo.Bucket:
		return kindBucket, m.Interval
	case *algo.Log:
		return kindLog, m.Length
	case *algo.Window:
		if m.Sliding {
			return kindSliding, m.Length
		}
		return kindFixed, m.Length
	}
	return 0, 0
}

// appendInteger appends the lowest size bytes of n.
func appendInteger(b []byte, n int64, size int) []byte {
	var full [8]byte
	binary.BigEndian.PutUint64(full[:], uint64(n))
	return append(b, full[8-size:]...)
}

func integer(b []byte) int64 {
	var full [8]byte
	copy(full[8-len(b):], b)
	return int64(binary.BigEndian.Uint64(full[:]))
}
