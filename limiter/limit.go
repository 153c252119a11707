package limiter

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"regexp"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// MinWindow is the shortest window of a limit. The deadline of a decision is below it: otherwise a
// process whose clock is behind could meet a new window at every attempt.
const MinWindow = time.Second

// MaxVersion is the highest Limit.Version that stores can hold.
const MaxVersion = 1<<47 - 1

const maxID = 1<<40 - 1

// MaxCharges is how many limits one request may charge on one subject. The condition of one DynamoDB
// write has room for no more.
const MaxCharges = 10

// ID identifies a limit inside its subject. It is a hash of what the limit is, not of its position,
// so the order of a document does not matter. It has 40 bits. Code that makes several limits for one
// subject checks that their IDs differ.
type ID uint64

// NewID returns the hash of parts. No two lists of parts have the same encoding.
func NewID(parts ...string) ID {
	h := sha256.New()
	for _, p := range parts {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	return ID(binary.BigEndian.Uint64(h.Sum(nil)) >> 24)
}

var idText = base32.HexEncoding.WithPadding(base32.NoPadding)

// String returns the id in 8 letters and digits.
func (id ID) String() string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(id))
	return idText.EncodeToString(b[3:])
}

// ParseID reads what String returned.
func ParseID(s string) (ID, error) {
	var b [8]byte
	if len(s) == idText.EncodedLen(5) { // or Decode would write past the end
		if n, err := idText.Decode(b[3:], []byte(s)); err == nil && n == 5 { // it skips line breaks
			return ID(binary.BigEndian.Uint64(b[:])), nil
		}
	}
	return 0, fmt.Errorf("limit id %q: want 8 letters and digits", s)
}

// Limit admits at most Rate.Requests per Rate.Window. Make one with NewLimit and share the pointer:
// it is immutable then and safe for concurrent use. The denial cache of a process belongs to the
// pointer.
type Limit struct {
	// Name appears in answers and metrics: [a-z0-9_-]{1,32}.
	Name string
	// Rule is the name of the limit's rule in metrics and events, such as "GET /api/v1/search", or
	// the limit's name if several rules share it. Empty: no rule. Package rules sets it. It is only
	// a label.
	Rule string
	Rate algo.Rate
	// ID is its identity inside its subject; 0 means NewID(Name).
	ID ID
	// Global reports that the limit counts all callers together. A decision reports it only if it
	// refuses.
	Global bool
	// Version is the version of the rules that set the Rate, 0 to MaxVersion. It must only grow: if
	// a store holds state of a higher version, the parameters of that state decide.
	Version int64
	// Horizon is how long a store keeps a subject after a charge on this limit. 0 means as long as
	// this limit needs. If requests charge different limits of a subject, give all of them the
	// longest Horizon; otherwise a write of a short limit lets the count of a long one expire.
	Horizon time.Duration
	// Shadow tries the limit out: it counts on a subject of its own and refuses nothing.
	// Decision.Shadowed reports what it would have refused.
	Shadow bool
	// Spread reduces the store calls of a limit that is charged very often. Zero: not at all.
	Spread Spread
	// OnError decides a request if the store fails that counts the limit. Zero: this process
	// enforces the limit by itself. A limit with Shadow never denies.
	OnError OnError
	// LocalProcesses, with OnErrorLocal, is the number of processes that divide the limit in an
	// outage: each admits an equal part of the remaining quota. 0 means 1: each process admits all
	// of it. It is 0 with another OnError.
	LocalProcesses int

	machine     algo.Machine
	fingerprint string
	parts       []*Limit // the shards of Spread.Shards; the one part of Spread.Cells
	share       *Limit   // the part of one of LocalProcesses; nil if they do not divide the limit
	isShare     bool     // this is the share of another limit
	reports     *reports // of Spread.Adaptive
}

var validName = regexp.MustCompile(`^[a-z0-9_-]{1,32}$`)

// NewLimit returns l, validated and with its defaults filled in. The error is a *algo.FieldError: it
// names the field and its allowed values.
func NewLimit(l Limit) (*Limit, error) {
	if !validName.MatchString(l.Name) {
		return nil, &algo.FieldError{Field: "name", Got: fmt.Sprintf("%q", l.Name), Want: "1 to 32 of a-z, 0-9, _ and -"}
	}
	switch {
	case l.ID > maxID:
		return nil, &algo.FieldError{Field: "id", Got: uint64(l.ID), Want: "at most 40 bits; use NewID"}
	case l.Version < 0 || l.Version > MaxVersion:
		return nil, &algo.FieldError{Field: "version", Got: l.Version, Want: fmt.Sprintf("0 to %d, such as Unix seconds", int64(MaxVersion))}
	}
	if l.Rate.Window < MinWindow {
		return nil, &algo.FieldError{Field: "window", Got: l.Rate.Window, Want: "1 second to 100 days"}
	}
	l.Rate = l.Rate.WithDefaults()
	machine, err := algo.New(l.Rate)
	if err != nil {
		return nil, err
	}
	l.machine, l.fingerprint = machine, machine.Fingerprint()
	if l.ID == 0 {
		l.ID = NewID(l.Name)
	}
	l.Horizon = max(l.Horizon, machine.Horizon())
	if l.parts, err = l.Spread.divide(l); err != nil {
		return nil, err
	}
	if l.OnError == OnErrorLocal {
		l.LocalProcesses = cmp.Or(l.LocalProcesses, 1)
	}
	if l.share, err = l.OnError.share(l); err != nil {
		return nil, err
	}
	if l.reports, err = newReports(&l); err != nil {
		return nil, err
	}
	return &l, nil
}

// Machine returns the algorithm that decides the limit.
func (l *Limit) Machine() algo.Machine { return l.machine }

// Fingerprint returns the fingerprint of Machine. A store keeps it with the state.
func (l *Limit) Fingerprint() string { return l.fingerprint }

// MaxCost returns the largest cost that can be allowed: the capacity of the limit, or of its smallest
// part if Spread divides it.
func (l *Limit) MaxCost() int64 {
	if n := len(l.parts); n > 0 {
		return l.parts[n-1].machine.Capacity()
	}
	return l.machine.Capacity()
}
