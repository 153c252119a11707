package domain

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/quota"
)

// MinWindow is the shortest window of a limit. It is longer than the deadline of a decision. Otherwise, a
// process whose clock is behind could find a new window at every attempt.
const MinWindow = time.Second

// MaxVersion is the highest Limit.Version that stores can hold.
const MaxVersion = 1<<47 - 1

// MaxCharges is the largest number of limits that one request may charge on one subject. The condition of
// a DynamoDB write has no room for more.
const MaxCharges = 10

// Limit admits at most Rate.Requests per Rate.Window or period. Make one with NewLimit and share the pointer.
// After NewLimit, a Limit MUST NOT change. It is safe for concurrent use. A Limiter recognizes a limit
// by its pointer: a new Limit does not use cached denials and leases of an old one.
type Limit struct {
	// Name appears in answers and metrics: [a-z0-9_-]{1,32}.
	Name string
	// Rule is the name of the limit's rule in metrics and events, such as "GET /api/v1/search". If
	// several rules share the limit, it is the name of the limit. Empty means no rule. Package rules
	// sets it.
	Rule string
	// Rate is what the limit admits. With Rate.Of, it is a threshold: limits with the same ID, Version and Count, whose
	// rates differ only in their capacity, keep one count. A request charges one of them. Without Spread.
	Rate algo.Rate
	// ID identifies the limit inside its subject; 0 means NewID(Name).
	ID ID
	// Global reports that the limit counts all callers together. A decision reports it only if it
	// refuses.
	Global bool
	// Version is the version of the rules that set the Rate, 0 to MaxVersion. New rules MUST have a higher version: if
	// a store holds state of a higher version, the parameters of that state decide. If the Rate comes from several
	// sources, such as a document and a record, use the sum of their versions: the sum grows whenever one version
	// grows.
	Version int64
	// Horizon is how long a store keeps a subject after a charge on this limit. 0 means the time that this limit
	// needs. If requests charge different limits of a subject, give all limits the longest Horizon. Otherwise a
	// charge on a short limit makes the count of a long limit expire.
	Horizon time.Duration
	// Shadow tries the limit out. The limit counts on a separate subject and refuses nothing.
	// Decision.Shadowed reports that it would have refused a request.
	Shadow bool
	// Mark admits requests over the limit and reports them in Decision.Over. The limit counts like any
	// other limit, but does not charge the requests that exceed it. It never denies a request. With
	// Shadow it has no effect.
	Mark bool
	// Spread reduces the store calls of a limit that is charged very often. The zero value calls the
	// store for each request.
	Spread Spread
	// Count is what the limit counts; the zero value counts requests. With another Count, Spread MUST
	// be zero.
	Count Count
	// Notify are the percentages of the capacity at which a Limiter writes a Notice. A limit with Notify is
	// a window of at least MinNotifyWindow, without Spread. With Shadow, Notify has no effect.
	Notify Percentages
	// OnError decides a request if the store of the limit fails. The zero value makes this process
	// enforce the limit by itself. A limit with Shadow never denies. NewLimit sets OnErrorAllow for a
	// limit with Mark.
	OnError OnError
	// LocalProcesses, with OnErrorLocal, is the number of processes that divide the limit in an
	// outage. Each admits an equal part of the remaining quota. 0 means 1: each process admits the
	// whole remaining quota. With another OnError it MUST be 0.
	LocalProcesses int

	machine      algo.Machine
	fingerprint  string
	parts        []*Limit // the shards of Spread.Shards
	localShare   *Limit   // the part of one process in an outage; nil unless LocalProcesses divide the limit
	isLocalShare bool     // l is the localShare of another limit
	syncs        *Syncs   // the limits of Spread.Sync that count syncs; nil without it
	regions      []*Limit // the limit in each region, if regions share it; l itself is at its place
}

const maxName = 32

// IsName reports whether s can be the name of a limit. It uses no regular expression, whose compilation
// would make each cold start longer.
func IsName(s string) bool {
	return s != "" && len(s) <= maxName && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}

// NewLimit validates l and returns it with its defaults. The error is a *algo.FieldError, which names the
// field and its allowed values.
func NewLimit(l Limit) (*Limit, error) {
	l.regions = nil
	if l.Rate.Regions == (algo.Regions{}) {
		return l.build()
	}
	if _, err := l.build(); err != nil {
		return nil, err
	}
	all := make([]*Limit, l.Rate.Regions.Of)
	for i := range all {
		one := l
		one.Rate.Regions.Place, one.regions = i, all
		made, err := one.build()
		if err != nil {
			return nil, err
		}
		all[i] = made
	}
	return all[l.Rate.Regions.Place], nil
}

// build is NewLimit for one region.
func (l Limit) build() (*Limit, error) {
	if !IsName(l.Name) {
		return nil, &algo.FieldError{Field: "name", Got: fmt.Sprintf("%q", l.Name), Want: "1 to 32 of a-z, 0-9, _ and -"}
	}
	switch {
	case l.ID > maxID:
		return nil, &algo.FieldError{Field: "id", Got: uint64(l.ID), Want: "at most 40 bits; use NewID"}
	case l.Version < 0 || l.Version > MaxVersion:
		return nil, &algo.FieldError{Field: "version", Got: l.Version, Want: fmt.Sprintf("0 to %d, such as Unix seconds", int64(MaxVersion))}
	}
	if l.Rate.Calendar == (algo.Calendar{}) && l.Rate.Window < MinWindow {
		return nil, &algo.FieldError{Field: "window", Got: l.Rate.Window, Want: "1 second to 100 days"}
	}
	if err := l.Count.validate(l.Spread); err != nil {
		return nil, err
	}
	var err error
	l.Rate.Algorithm, err = l.Count.Algorithm(l.Rate.Algorithm)
	if err != nil {
		return nil, err
	}
	if most, n := int64(algo.MaxRequests), l.Rate.Requests; (n < 1 || n > most) && l.Count.Of != CountCost && l.Count.Of != CountBytes {
		return nil, &algo.FieldError{Field: "requests", Got: l.Rate.Requests, Want: fmt.Sprintf("1 to %d", most)}
	}
	l.Rate = l.Rate.WithDefaults()
	l.Rate.Counts = l.Rate.Counts || l.Spread.Counts()
	machine, err := algo.New(l.Rate)
	if err != nil {
		return nil, err
	}
	l.machine, l.fingerprint, l.localShare, l.syncs = machine, machine.Fingerprint(), nil, nil
	if l.ID == 0 {
		l.ID = NewID(l.Name)
	}
	l.Horizon = max(l.Horizon, machine.Horizon())
	switch shared, spread := l.Rate.Regions.Of > 0, l.Spread != (Spread{}); { // algo.New has checked the algorithm
	case shared && spread:
		return nil, &algo.FieldError{Field: "regions", Got: "shared", Want: "each beside lease, shards or sync_ms"}
	case shared && l.Notifies():
		return nil, &algo.FieldError{Field: "regions", Got: "shared", Want: "each beside notify"}
	case l.Rate.Of > 0 && spread:
		return nil, &algo.FieldError{Field: "of", Got: l.Rate.Of, Want: "none beside lease, shards or sync_ms"}
	}
	if err := l.Spread.validate(l.Rate, machine.Capacity()); err != nil {
		return nil, err
	}
	if err := l.Notify.validate(l.Rate, l.Spread); err != nil {
		return nil, err
	}
	l.parts, err = l.divide()
	if err != nil {
		return nil, err
	}
	if l.Mark && !l.Shadow {
		l.OnError, l.LocalProcesses = OnErrorAllow, 0
	}
	if l.OnError == OnErrorLocal {
		l.LocalProcesses = cmp.Or(l.LocalProcesses, 1)
	}
	if err := l.OnError.validate(l.Rate, l.LocalProcesses); err != nil {
		return nil, err
	}
	if l.LocalProcesses > 1 && l.Rate.Regions.HasShare(l.Rate.Regions.Place) {
		l.localShare, err = l.newLocalShare()
		if err != nil {
			return nil, err
		}
	}
	if l.Spread.Sync > 0 {
		l.syncs, err = newSyncs(&l)
	}
	return &l, err
}

// Regions returns the limit in each region that shares it; none if regions do not share it. They differ in
// Rate.Regions.Place.
func (l *Limit) Regions() []*Limit { return l.regions }

// CountsWith reports whether one charge can be on both limits, because they keep one count under the same rules.
func (l *Limit) CountsWith(other *Limit) bool {
	return l == other || l.ID == other.ID && l.Version == other.Version && l.fingerprint == other.fingerprint
}

// Knows reports whether what this process knows of the limit other is also known of l: it is l, or has another threshold on
// the same count.
func (l *Limit) Knows(other *Limit) bool { return l == other || l.Rate.Of > 0 && l.CountsWith(other) }

// Is reports whether m has the parameters of l.
func (l *Limit) Is(m algo.Machine) bool { return m == l.machine || m.Fingerprint() == l.fingerprint }

// View returns r with the threshold of l. r is a state of a limit that l knows.
func (l *Limit) View(r algo.Result) algo.Result {
	switch {
	case l.Rate.Of == 0 || r.Machine == nil || r.Machine == l.machine:
	case l.Is(r.Machine):
		r.Machine = l.machine
	default:
		r.Machine = algo.Within(r.Machine, l.machine)
	}
	return r
}

// Within returns l with another threshold on states of the machine of, which is the part percent of others (algo.Rate.Percent).
func (l *Limit) Within(of algo.Machine, most, percent int64) *Limit {
	if most == l.machine.Capacity() && percent == l.Rate.Percent && l.Is(of) {
		return l
	}
	one := *l
	one.machine = algo.WithThreshold(l.machine, of, most, percent)
	return &one
}

// Concurrent reports whether l counts requests in flight.
func (l *Limit) Concurrent() bool { return l.Count.Of == CountConcurrent }

// Enforced reports whether l can deny a request.
func (l *Limit) Enforced() bool { return !l.Shadow && !l.Mark }

func (l Limit) divide() (shards []*Limit, err error) {
	for i := range l.Spread.Shards {
		part := l
		part.OnError, part.LocalProcesses = OnErrorAllow, 0 // these settings apply to the whole limit, not to its parts
		part.Spread, part.Rate = Spread{}, divideRate(l.Rate, int64(i), int64(l.Spread.Shards), true)
		made, err := NewLimit(part)
		if err != nil {
			return nil, err
		}
		shards = append(shards, made)
	}
	return shards, nil
}

// newLocalShare returns the part of l that each process enforces in an outage, if LocalProcesses divide
// l.
func (l Limit) newLocalShare() (*Limit, error) {
	if shared := l.Rate.Regions; shared.Of > 0 {
		l.Rate.Requests, l.Rate.Counts, l.Rate.Regions, l.regions = shared.Base(l.Rate.Requests), true, algo.Regions{}, nil
	}
	l.isLocalShare, l.Spread, l.Rate = true, Spread{}, divideRate(l.Rate, 0, int64(l.LocalProcesses), false)
	l.Notify = Percentages{}
	l.OnError, l.LocalProcesses = OnErrorAllow, 0
	return NewLimit(l)
}

// Notifies reports whether l writes notices.
func (l *Limit) Notifies() bool { return l.Notify[0] != 0 && !l.Shadow }

// Syncs are the limits under which a limit with Spread.Sync counts the syncs of processes. They count on the same
// subject, and refuse nothing.
type Syncs struct {
	Admitted  *Limit // counts admissions: the limit itself, or a longer window if its window is too short
	Demand    *Limit // counts the demand of the processes
	Processes *Limit // counts the elapsed milliseconds of each process: 1,000 a second mean one process
}

func newSyncs(l *Limit) (*Syncs, error) {
	perWindow := func(what string, requests, version int64) (*Limit, error) {
		return NewLimit(Limit{Name: l.Name, ID: NewID(what, l.ID.String()), Version: version, Horizon: l.Horizon,
			Rate: algo.Rate{Requests: requests, Window: quota.SyncWindow, Counts: true}})
	}
	r := &Syncs{Admitted: l}
	var err error
	if quota.Span(l.machine) < quota.SyncWindow {
		admitted := min(float64(algo.MaxRequests), quota.Rate(l.machine)*quota.SyncWindow.Seconds())
		r.Admitted, err = perWindow("admitted", int64(admitted), l.Version)
		if err != nil {
			return nil, err
		}
	}
	r.Demand, err = perWindow("demand", algo.MaxRequests, 0)
	if err != nil {
		return nil, err
	}
	r.Processes, err = perWindow("environments", algo.MaxRequests, 0)
	return r, err
}

// WindowAt returns the length of the window at an instant. Only the length of a calendar's period depends
// on the instant.
func (l *Limit) WindowAt(now time.Time) time.Duration {
	if w := algo.WindowOf(l.machine); w != nil {
		return w.LengthAt(algo.InstantOf(now))
	}
	return l.Rate.Window
}

// Location returns the time zone of the limit's periods; nil for a limit without a period.
func (l *Limit) Location() *time.Location {
	if w := algo.WindowOf(l.machine); w != nil {
		return w.Location()
	}
	return nil
}

// Machine returns the algorithm that decides the limit.
func (l *Limit) Machine() algo.Machine { return l.machine }

// Fingerprint returns the fingerprint of Machine. A store keeps it beside the state.
func (l *Limit) Fingerprint() string { return l.fingerprint }

// Parts returns the shards of l; none without Spread.Shards.
func (l *Limit) Parts() []*Limit { return l.parts }

// LocalShare returns the part of l that one process enforces in an outage; nil unless LocalProcesses divide l.
func (l *Limit) LocalShare() *Limit { return l.localShare }

// IsLocalShare reports whether l is the LocalShare of another limit.
func (l *Limit) IsLocalShare() bool { return l.isLocalShare }

// Syncs returns the limits of Spread.Sync that count syncs; nil without it.
func (l *Limit) Syncs() *Syncs { return l.syncs }

// MaxCost returns the largest cost that the limit can allow. It is the capacity of the limit, or of its
// smallest part if Spread divides it.
func (l *Limit) MaxCost() int64 {
	if n := len(l.parts); n > 0 {
		return l.parts[n-1].machine.Capacity()
	}
	return l.machine.Capacity()
}

// MaxLocalCost returns the largest cost that the limit can allow in an outage. It is MaxCost, or the
// capacity of one part if LocalProcesses divide the limit.
func (l *Limit) MaxLocalCost() int64 {
	if l.localShare == nil {
		return l.MaxCost()
	}
	return l.localShare.machine.Capacity()
}

// Subjects returns the subjects under which a store counts charges of s on l.
func (l *Limit) Subjects(s Subject) []Subject {
	s = l.CountedSubject(s)
	if l.Spread.Shards == 0 {
		return []Subject{s}
	}
	shards := make([]Subject, l.Spread.Shards)
	for i := range shards {
		shards[i] = s.Shard(i)
	}
	return shards
}

// CountedSubject returns the subject under which a store counts l for s. A shadow limit has a subject of
// its own.
func (l *Limit) CountedSubject(s Subject) Subject {
	if l.Shadow {
		return s.And(Subject{other, "shadow"})
	}
	return s
}

const (
	maxID   = 1<<40 - 1
	idBytes = 5
)

// ID identifies a limit inside its subject. It is a hash of 40 bits. Its input is the properties that
// identify the limit, not the limit's position in a document. Code that makes several limits for one
// subject MUST check that their IDs differ.
type ID uint64

// NewID returns the hash of parts. It hashes each part with its length, so ("a", "bc") and ("ab", "c")
// are different inputs.
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
	return idText.EncodeToString(b[8-idBytes:])
}

// ParseID parses an id that String formatted.
func ParseID(s string) (ID, error) {
	var b [8]byte
	if len(s) == idText.EncodedLen(5) { // a longer text would make Decode write past the end
		if n, err := idText.Decode(b[3:], []byte(s)); err == nil && n == 5 { // Decode skips line breaks, so check n
			return ID(binary.BigEndian.Uint64(b[:])), nil
		}
	}
	return 0, fmt.Errorf("limit id: invalid (got %q, want 8 letters and digits)", s)
}
