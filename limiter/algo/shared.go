package algo

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Regions is the place of one region among the regions that share a limit. The zero value is a limit of one region.
type Regions struct {
	Of    int // number of regions that share the limit; 0, or 2 to MaxRegions
	Place int // place of this region in the list of all regions, which is the same everywhere; 0 to Of-1
	// Without has bit i set if the region at place i has no share, because it joins or leaves the list. The other regions
	// do not ask it for share. While the list changes in two steps, each remaining region thus has the smaller of its old
	// and its new base share.
	Without uint16
	// List is the number of the list, 0 to MaxList. It grows with each change of the list: a state is converted to the
	// later list, and never back.
	List int64
}

// MaxList is the largest number of a list of regions.
const MaxList = 999_999

// MaxRegions is the largest number of regions that share a limit.
const MaxRegions = 10

// Base returns the base share of the region: its part of n requests. The first regions get one more if n cannot be
// divided. The sum of all base shares is n if all regions have a share.
func (r Regions) Base(n int64) int64 {
	if !r.HasShare(r.Place) {
		return 0
	}
	base := n / int64(r.Of)
	if int64(r.Place) < n%int64(r.Of) {
		base++
	}
	return base
}

// HasShare reports whether the region at a place has a share.
func (r Regions) HasShare(place int) bool { return r.Without>>place&1 == 0 }

func (r Regions) validate() error {
	if r.Of < 2 || r.Of > MaxRegions || r.Place < 0 || r.Place >= r.Of || r.Without>>r.Of != 0 || r.List < 0 || r.List > MaxList {
		return &FieldError{"regions", fmt.Sprintf("place %d of %d", r.Place, r.Of), fmt.Sprintf("2 to %d regions, and a place from 0",
			MaxRegions)}
	}
	return nil
}

// Shared is the part of a window that one of several regions enforces. Every region has a Shared of the same Whole, and a
// state of its own. Its base share is Regions.Base of the requests.
//
// Unused share moves between regions. A debit in one region increases Moved of that region's state, and a credit in
// another region then decreases Moved there by the same number. A region allows a request of cost n if
//
//	Count + Moved + ceil(max(0, Previous+MovedBefore)*weight) + n <= base share
//
// A debit passes the same test, and the left side only falls with time. Debits are at least credits. So the sum of the
// left sides of all regions is at least what one store would have counted, and the regions together never allow more than
// one store. If clocks differ by a second, they never allow more than Requests in a window.
//
// For example, three regions share 300 requests a minute. The first region used its 100. A debit in each other region
// moves 88, which leaves them 12 each. A credit of 176 lets the first region allow 176 more.
//
// Moved belongs to one window. A transfer that is lost between debit and credit lowers the limit until that window no
// longer counts. Debts and clamps refer to the whole limit; Remaining is what this region can allow by itself.
type Shared struct {
	Whole   *Window
	Regions Regions

	share *Window // Whole with the base share as its Requests
}

var _ Machine = (*Shared)(nil)

func newShared(r Rate) (Machine, error) {
	whole := r
	whole.Regions, whole.Counts = Regions{}, true
	if !r.Algorithm.HasWindows() {
		return nil, &FieldError{"regions", "shared", fmt.Sprintf("each: regions cannot share a %s; use a fixed_window, a sliding_window or a "+
			"period", r.Algorithm)}
	}
	m, err := New(whole)
	if err != nil {
		return nil, err
	}
	return share(m, r.Regions)
}

func share(m Machine, r Regions) (Machine, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	whole, ok := m.(*Window)
	if !ok {
		return nil, &FieldError{"regions", m.Fingerprint(), "a window"}
	}
	part := *whole
	part.Requests = r.Base(whole.Requests)
	return &Shared{whole, r, &part}, nil
}

// Moved returns what moved to other regions in Window, minus what moved from them. It is for a state of a Shared, which
// keeps it in a field that windows do not need, so that states stay small.
func (s State) Moved() int64 { return s.Refunds }

// MovedBefore is Moved for Window-1.
func (s State) MovedBefore() int64 { return int64(s.TAT) }

// WithMoved returns s with these numbers as Moved and MovedBefore.
func (s State) WithMoved(moved, before int64) State {
	s.Refunds, s.TAT = moved, Instant(before)
	return s
}

// Base returns the base share of the region.
func (w *Shared) Base() int64 { return w.share.Requests }

// Part returns a window with the base share of the region as its Requests. It decides like w while nothing has moved.
// Its Requests can be 0.
func (w *Shared) Part() *Window { return w.share }

// NewList reports whether held and own are parts of the same limit in regions, and the list of own is not older. Two lists
// without a number, or with the same one, replace each other.
func NewList(held, own Machine) bool {
	s, ok := held.(*Shared)
	t, also := own.(*Shared)
	return ok && also && s.Regions.List <= t.Regions.List && s.Whole.Fingerprint() == t.Whole.Fingerprint()
}

// At is like Window.At.
func (w *Shared) At(s State, now Instant) State { return s.shift(max(s.Window, w.Whole.Index(now))) }

// WithAll returns the state s of m at the instant now as if all share of the other regions had moved to this one. Remaining
// is then that of the whole limit. If regions do not share m, WithAll returns s.
func WithAll(m Machine, s State, now Instant) State {
	if w, ok := m.(*Shared); ok {
		return w.At(s, now).WithMoved(w.share.Requests-w.Whole.Requests, 0)
	}
	return s
}

// ShareOf returns what a region has of the limit with the machine m: its base share, and what moved to it. It is 0 if
// regions do not share m.
func ShareOf(m Machine, s State, now Instant) int64 {
	if w, ok := m.(*Shared); ok {
		return w.Used(s, now) + w.Remaining(s, now)
	}
	return 0
}

// Lack returns what a region lacks for a charge of this cost, which the state s refuses at the instant now, and the window
// in which it lacks it. m is a *Shared.
func Lack(m Machine, s State, now Instant, cost int64) (index, lack int64) {
	w := m.(*Shared)
	at := w.At(s, now)
	return at.Window, max(1, at.Count-w.Room(at, now, cost))
}

// used returns the state of the base share that counts as much as s.
func (s State) used() State {
	return State{Window: s.Window, Count: s.Count + s.Moved(), Previous: max(0, s.Previous+s.MovedBefore())}
}

// Room returns the largest Count of s with which a charge of this cost is allowed at the instant now. s is a state that At
// returned. The result is negative if there is no such Count. cost MUST be at most Whole.Requests.
func (w *Shared) Room(s State, now Instant, cost int64) int64 {
	return w.share.Room(s.Window, now, s.used().Previous, cost) - s.Moved()
}

// Take implements Machine.
func (w *Shared) Take(s State, now Instant, cost int64) (State, bool) {
	at := w.At(s, now)
	if cost > w.Whole.Requests || at.Count > w.Room(at, now, cost) {
		return s, false
	}
	if cost == 0 {
		return s, true
	}
	at.Count += cost
	return at, true
}

// Force implements Machine.
func (w *Shared) Force(s State, now Instant, cost int64) State {
	if cost == 0 {
		return s
	}
	return w.Whole.Force(w.At(s, now), now, cost)
}

// Excess implements Machine.
func (w *Shared) Excess(s State, now Instant, cost int64) int64 {
	return w.Whole.Excess(s, now, cost)
}

// RetryAfter implements Machine. It assumes that no share moves. A cost above the base share then waits for the next
// window, in which other regions have share again.
func (w *Shared) RetryAfter(s State, now Instant, cost int64) time.Duration {
	if cost > w.Whole.Requests {
		return Never
	}
	at := w.At(s, now)
	if at.Count <= w.Room(at, now, cost) {
		return 0
	}
	var wait time.Duration
	at = at.used()
	if cost > w.Base() && at.Count+cost > w.Base() {
		wait = w.Whole.Start(at.Window + 1).Sub(now)
	} else {
		wait = w.share.wait(at.Window, at.Count, at.Previous, now, cost)
	}
	if w.Ahead(s, now) {
		wait = clampedWait(w, s, now, cost, wait)
	}
	return wait
}

// Remaining implements Machine.
func (w *Shared) Remaining(s State, now Instant) int64 {
	at := w.At(s, now)
	return min(max(0, w.Room(at, now, 0)-at.Count), w.Whole.Requests)
}

// ResetAfter implements Machine.
func (w *Shared) ResetAfter(s State, now Instant) time.Duration {
	at := w.At(s, now)
	return w.Whole.ResetAfter(State{Window: at.Window, Count: max(at.Count, at.Moved(), -at.Moved()),
		Previous: max(at.Previous, at.MovedBefore(), -at.MovedBefore())}, now)
}

// Refund implements Machine. What moved stays.
func (w *Shared) Refund(s, charged State, cost int64, late time.Duration) State {
	return w.Whole.Refund(s, charged, cost, late)
}

// Debit takes share for another region from the window index, at the instant now of that region. It takes at least lack,
// if so much is free. It takes more so that the other region need not ask soon again:
//
//   - if nothing is counted in the window, all that is free but an eighth of the base share, and at least half;
//   - otherwise half of what is free;
//   - in a window of an hour or more, an eighth of what is free, because a lost transfer is lost for as long. If less than
//     lack is free, it takes as much as in a short window.
//
// It never takes all for a request that needs share of several regions, because they may not have enough together.
// The result is 0 if nothing is free, or if s counts in a later window.
func (w *Shared) Debit(s State, index int64, now Instant, lack int64) (next State, moved int64) {
	if s.Window > index {
		return s, 0
	}
	at := s.shift(index)
	free := w.Room(at, now, 0) - at.Count
	if free <= 0 {
		return s, 0
	}
	moved = (free + 1) / 2
	if at.Count+at.Moved() == 0 {
		moved = max(moved, free-w.Base()/8)
	}
	if free >= lack {
		if w.Whole.Length >= time.Hour {
			moved = min(moved, free/8)
		}
		moved = max(moved, lack)
	}
	at = at.WithMoved(at.Moved()+moved, at.MovedBefore())
	return at, moved
}

// Credit gives the region share that debits in other regions took from the window index. ok is false if s counts in a
// later window, in which the share is worth nothing.
func (w *Shared) Credit(s State, index, moved int64) (next State, ok bool) {
	if s.Window > index {
		return s, false
	}
	at := s.shift(index)
	at = at.WithMoved(at.Moved()-moved, at.MovedBefore())
	return at, true
}

// whole returns the state of Whole that counts what the region allowed, and what other regions got. Share that the region
// got is forgotten, so the result never counts less than s.
func (w *Shared) whole(s State) State {
	return State{Window: s.Window, Count: s.Count + max(0, s.Moved()), Previous: s.Previous + max(0, s.MovedBefore())}
}

// Ahead implements Machine.
func (w *Shared) Ahead(s State, now Instant) bool { return w.Whole.Ahead(s, now) }

func (w *Shared) newest(s State) int64 { return w.Whole.newest(s) }

func (w *Shared) full(s State, at Instant) State { return w.Whole.full(w.whole(s), at) }

// Capacity implements Machine. It is that of the whole limit.
func (w *Shared) Capacity() int64 { return w.Whole.Capacity() }

// MaxEntries implements Machine.
func (w *Shared) MaxEntries() int64 { return 0 }

// Horizon implements Machine.
func (w *Shared) Horizon() time.Duration { return w.Whole.Horizon() }

// Idle implements Machine.
func (w *Shared) Idle(s State) Instant { return w.Whole.Idle(s) }

// kindShared begins the fingerprint of a Shared. The place, the number of regions and the fingerprint of Whole follow.
const kindShared = "shared-"

// noShare is the place of a region without a share, in its fingerprint.
const noShare = "x"

// Fingerprint implements Machine. For example, it is "shared-0-3/fixed/1m0s/300" in the first of three regions, and
// "shared-x-3/fixed/1m0s/300" in one that has no share. The number of a list follows: "shared-0-3-2/fixed/1m0s/300".
func (w *Shared) Fingerprint() string {
	place := noShare
	if w.Regions.HasShare(w.Regions.Place) {
		place = strconv.Itoa(w.Regions.Place)
	}
	of := strconv.Itoa(w.Regions.Of)
	if w.Regions.List > 0 {
		of += "-" + strconv.FormatInt(w.Regions.List, 10)
	}
	return fmt.Sprintf("%s%s-%s/%s", kindShared, place, of, w.Whole.Fingerprint())
}

// parseShared is the inverse of Fingerprint. region is the text after kindShared, and whole that after the slash.
func parseShared(region, whole string) (Machine, error) {
	place, of, _ := strings.Cut(region, "-")
	of, list, numbered := strings.Cut(of, "-")
	var r Regions
	var err error
	if place == noShare {
		place, r.Without = "0", 1
	}
	r.Place, err = strconv.Atoi(place)
	if err == nil {
		r.Of, err = strconv.Atoi(of)
	}
	if err == nil && numbered {
		r.List, err = strconv.ParseInt(list, 10, 64)
	}
	if err != nil {
		return nil, fmt.Errorf("fingerprint %s%s: %w", kindShared, region, err)
	}
	if strings.HasPrefix(whole, kindShared) {
		return nil, fmt.Errorf("fingerprint %s%s: shared twice", kindShared, region)
	}
	m, err := Parse(whole)
	if err != nil {
		return nil, err
	}
	return share(m, r)
}

// Used implements Machine. It is what the region allowed, of the whole limit.
func (w *Shared) Used(s State, now Instant) int64 { return w.Whole.Used(s, now) }

func (w *Shared) owing(n int64, now Instant) State { return w.Whole.owing(n, now) }
