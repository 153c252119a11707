package algo

import (
	"cmp"
	"fmt"
	"strconv"
	"time"
)

// Algorithm is the name of a way of counting. Rules documents use the same names.
type Algorithm string

// The algorithms.
const (
	// SlidingWindow counts the present window and a part of the previous window: the part that is less than one
	// Window old. It is the default, because it needs constant memory and one write. Up to MaxExact Requests, it
	// stores the instant of every request, like a SlidingLog.
	SlidingWindow Algorithm = "sliding_window"
	// FixedWindow counts in windows aligned to UTC, or in the periods of a Calendar. Across a boundary, it
	// admits up to twice the limit.
	FixedWindow Algorithm = "fixed_window"
	// TokenBucket admits a burst at once and then a steady rate. It is GCRA in the virtual scheduling form (ITU-T
	// I.371), which keeps one instant instead of a token count.
	TokenBucket Algorithm = "token_bucket"
	// LeakyBucket is a TokenBucket that works as a queue. Burst is the depth of the queue. An allowed
	// request leaves the queue after its Delay, so departures are evenly spaced. If requests do not wait
	// for the Delay, it decides like TokenBucket.
	LeakyBucket Algorithm = "leaky_bucket"
	// SlidingLog stores the instant of every request. It admits at most Requests in any Window, and needs
	// memory in proportion to Requests.
	SlidingLog Algorithm = "sliding_log"
	// Concurrent limits requests in flight: at most Requests at a time, each for at most Window. A request
	// takes a slot, and a refund releases the slot when the request ends. See Slots.
	Concurrent Algorithm = "concurrent"
)

// Bounds of a Rate. They keep every sum of instants within 64 bits.
const (
	MaxRequests = 1_000_000_000 // maximum of Requests, of Burst, and of requests per second
	// MaxAmount is the maximum of Requests of windows that count something else, such as bytes. RFC 9651 has numbers of
	// fifteen digits.
	MaxAmount = 999_999_999_999_999
	MaxWindow = 100 * 24 * time.Hour // maximum of Window, and of the time in which a bucket fills
	// MaxExact is the highest Requests of a SlidingWindow that stores instants. Two counts admit one request less
	// than the limit in each window of a caller that never stops asking. That is 5 % of 20 requests.
	MaxExact = 19
	// MaxLog is the highest Requests of a SlidingLog. A log holds at most twice as many entries: its
	// requests and a debt of the same size, or entries that have expired and are not yet removed. Twice
	// MaxLog entries of 12 bytes and the longest key fit into eight write units of DynamoDB.
	MaxLog = 327
	// MaxSlots is the highest Requests of a Concurrent rate. That many slots of 11 bytes and the longest key
	// fit into five write units of DynamoDB.
	MaxSlots = 390
)

// Rate is at most Requests per Window or per period of Calendar, counted by Algorithm. The zero value
// is invalid.
type Rate struct {
	Algorithm Algorithm     `json:",omitzero"`
	Requests  int64         `json:",omitzero"`
	Window    time.Duration `json:",omitzero"`
	Burst     int64         `json:",omitzero"` // bucket capacity; 0 means Requests; windows and logs have none
	// Of makes this rate a threshold on a larger count: charges may use its capacity (Requests, or Burst of a bucket) of
	// the capacity Of. Rates that differ only in this capacity keep one state; debts are bounded by Of. 0 means none. Only a
	// window, which then implies Counts, and a bucket can have it.
	Of int64 `json:",omitzero"`
	// Percent says that the capacity is this part of Of, 1 to 100. Where newer rules have set another count, the threshold
	// is this part of their capacity. 0 means that the capacity is a number of its own, also there.
	Percent int64 `json:",omitzero"`
	// Least is the smallest capacity of the rates that keep the count of Of; 0 means the capacity of this rate.
	Least int64 `json:",omitzero"`
	// Calendar replaces Window, which is then 0. Its Algorithm is FixedWindow.
	Calendar Calendar `json:",omitzero"`
	// Counts makes a SlidingWindow of every size keep two counts, because something adds them up or takes them in
	// advance: the parts of a larger limit, leases, shares of sync_ms.
	Counts bool `json:",omitzero"`
	// Regions makes a window the part of a limit that one of several regions enforces; see Shared. It implies Counts.
	Regions Regions `json:",omitzero"`
}

// Span returns the Window of r, or the longest length of its period.
func (r Rate) Span() time.Duration {
	if r.Calendar.Period != "" {
		return r.Calendar.Period.longest()
	}
	return r.Window
}

// Capacity returns how many requests r admits at once: its Burst or, without one, its Requests. r need not be valid.
func (r Rate) Capacity() int64 { return cmp.Or(r.Burst, r.Requests) }

// WithDefaults returns r with an empty Algorithm, a zero Burst and the defaults of its Calendar filled in.
func (r Rate) WithDefaults() Rate {
	r.Calendar = r.Calendar.withDefaults()
	if r.Algorithm == "" && r.Calendar.Period != "" {
		r.Algorithm = FixedWindow
	} else if r.Algorithm == "" {
		r.Algorithm = SlidingWindow
	}
	if r.Burst == 0 && r.Algorithm.HasBurst() {
		r.Burst = r.Requests
	}
	return r
}

// New returns the machine of r. The error names the field that is out of bounds and its allowed values.
func New(r Rate) (Machine, error) {
	r = r.WithDefaults()
	if err := r.validate(); err != nil {
		return nil, err
	}
	if r.Burst != 0 && !r.Algorithm.HasBurst() {
		return nil, &FieldError{"burst", r.Burst, fmt.Sprintf("none: %s has no burst", r.Algorithm)}
	}
	if err := r.validateOf(); err != nil {
		return nil, err
	}
	if r.Regions != (Regions{}) {
		return newShared(r)
	}
	if r.Calendar != (Calendar{}) {
		return newPeriods(r)
	}
	switch r.Algorithm {
	case TokenBucket, LeakyBucket:
		return newBucket(r)
	case SlidingWindow, FixedWindow:
		if r.Algorithm == SlidingWindow && r.Requests <= MaxExact && !r.Counts && r.Of == 0 {
			return &Log{r.Window, r.Requests}, nil
		}
		return &Window{Length: r.Window, Requests: r.Requests, Of: r.Of, parts: r.parts(), Sliding: r.Algorithm == SlidingWindow}, nil
	case SlidingLog:
		if r.Requests > MaxLog {
			return nil, &FieldError{"requests", r.Requests, fmt.Sprintf("at most %d for a sliding_log, which stores every request; use "+
				"sliding_window for more", MaxLog)}
		}
		return &Log{r.Window, r.Requests}, nil
	case Concurrent:
		if r.Requests > MaxSlots {
			return nil, &FieldError{"requests", r.Requests, fmt.Sprintf("at most %d for a concurrent limit, because one item holds every request "+
				"in flight", MaxSlots)}
		}
		return &Slots{r.Window, r.Requests}, nil
	}
	return nil, &FieldError{"algorithm", r.Algorithm, "sliding_window, fixed_window, token_bucket, leaky_bucket or sliding_log"}
}

// validateOf returns an error if r cannot be a threshold. r has its defaults.
func (r Rate) validateOf() error {
	switch {
	case r.Of == 0 && r.Percent == 0 && r.Least == 0:
		return nil
	case !r.Algorithm.HasWindows() && !r.Algorithm.HasBurst():
		return &FieldError{"of", r.Of, fmt.Sprintf("none: a %s has no threshold; use a window, a bucket or a period", r.Algorithm)}
	case r.Regions != (Regions{}):
		return &FieldError{"of", r.Of, "none beside regions"}
	case r.Percent < 0 || r.Percent > 100 || r.Least < 0 || r.Least > r.Capacity():
		return &FieldError{"of", r.Of, "a percentage, and a least capacity of at most this capacity"}
	case r.Of < r.Capacity() || r.Of > r.most():
		return &FieldError{"of", r.Of, fmt.Sprintf("the capacity, to %d", r.most())}
	}
	return nil
}

func newPeriods(r Rate) (Machine, error) {
	switch c := r.Calendar; {
	case c.Period == "" && c.Zone != "":
		return nil, &FieldError{"time_zone", strconv.Quote(c.Zone), "none without a period"}
	case c.Period == "":
		return nil, &FieldError{"anchor", c.Anchor, "none without a period"}
	case r.Window != 0:
		return nil, &FieldError{"period", c.Period, "none: a limit has either a window or a period"}
	case r.Algorithm != FixedWindow:
		return nil, &FieldError{"period", c.Period, fmt.Sprintf("none: a %s has no periods; use a fixed_window", r.Algorithm)}
	}
	c, err := r.Calendar.compile()
	if err != nil {
		return nil, err
	}
	return &Window{Length: r.Span(), Requests: r.Requests, Of: r.Of, parts: r.parts(), calendar: c}, nil
}

// most returns the maximum of Requests.
func (r Rate) most() int64 {
	if r.Algorithm.HasWindows() && r.Regions == (Regions{}) {
		return MaxAmount
	}
	return MaxRequests
}

func (r Rate) validate() error {
	switch {
	case r.Requests < 1 || r.Requests > r.most():
		return &FieldError{"requests", r.Requests, fmt.Sprintf("1 to %d", r.most())}
	case r.Calendar.Period == "" && (r.Window <= 0 || r.Window > MaxWindow):
		return &FieldError{"window", r.Window, "more than 0, at most 100 days"}
	case r.Requests > MaxRequests && r.Window%time.Second != 0:
		return &FieldError{"window", r.Window, fmt.Sprintf("whole seconds for more than %d requests", MaxRequests)}
	case r.Requests <= MaxRequests && r.Requests > int64(r.Span()):
		return &FieldError{"requests", r.Requests, "at most 1000000000 a second"}
	case r.Burst < 0 || r.Burst > MaxRequests:
		return &FieldError{"burst", r.Burst, "1 to 1000000000"}
	}
	return nil
}

// FieldError reports which field is wrong, its value, and the allowed values.
type FieldError struct {
	Field string // its name in the rules document
	Got   any
	Want  string
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: got %v, want %s", e.Field, e.Got, e.Want)
}
