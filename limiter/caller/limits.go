package caller

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// These constants bound the limits of a record.
const (
	maxOwnLimits = 20
	maxLimits    = 4096    // bytes of JSON
	maxChanged   = 1 << 40 // in Unix seconds
)

// Limits are limits that the record of an API key sets for its caller. They replace numbers of limits in
// the rules document. Limits are immutable. Create them with NewLimits or ParseLimits. A nil *Limits
// sets nothing.
type Limits struct {
	set     limitsJSON
	text    string
	mistake error
}

type limitsJSON struct {
	Rates  map[string]Rate `json:"rates,omitempty"`
	Anchor anchor          `json:"anchor,omitempty"`
	// Changed stays set when the limits are removed. Changed is a part of Limit.Version. If Changed fell to 0,
	// the version would fall, and a store would continue to use the removed limits.
	Changed int64 `json:"changed"`
}

// NewLimits returns limits by the name of a limit in the rules document. firstDay is a day of the month
// from "1" to "31", a weekday such as "monday", or "" for the anchor of the document. changed is the time
// of the last change of the record's limits in Unix seconds. It MUST grow with every change.
func NewLimits(rates map[string]Rate, firstDay string, changed int64) (*Limits, error) {
	set := limitsJSON{maps.Clone(rates), anchor(firstDay), changed}
	if err := set.validate(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(set)
	return &Limits{set: set, text: string(text)}, err
}

// ParseLimits parses the JSON form of limits. If the text has a mistake, the limits set nothing, and
// Mistake returns the mistake. Changed then returns the time of the last change if the text has a valid
// one, and 0 otherwise.
func ParseLimits(text string) *Limits {
	var set limitsJSON
	err := errors.New("longer than 4096 bytes")
	if len(text) <= maxLimits {
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		err = d.Decode(&set)
		if err == nil {
			if _, more := d.Token(); !errors.Is(more, io.EOF) {
				err = errors.New("data after the JSON object")
			}
		}
	}
	if err == nil {
		var l *Limits
		l, err = NewLimits(set.Rates, string(set.Anchor), set.Changed)
		if err == nil {
			return l
		}
	}
	if set.Changed < 0 || set.Changed > maxChanged {
		set.Changed = 0
	}
	kept := limitsJSON{Changed: set.Changed}
	return &Limits{set: kept, text: strconv.FormatInt(kept.Changed, 10), mistake: fmt.Errorf("limits of the record: %w", err)}
}

func (s limitsJSON) validate() error {
	if len(s.Rates) > maxOwnLimits {
		return fmt.Errorf("got %d limits, want at most %d", len(s.Rates), maxOwnLimits)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Rates)) {
		if !limiter.IsName(name) {
			return fmt.Errorf("limit %.40q: invalid name (want 1 to 32 of a-z, 0-9, _ and -)", name)
		}
		if err := s.Rates[name].validate(); err != nil {
			return fmt.Errorf("limit %s: %w", name, err)
		}
	}
	if s.Changed < 1 || s.Changed > maxChanged {
		return fmt.Errorf("changed: out of range (got %d, want Unix seconds from 1 to %d)", s.Changed, int64(maxChanged))
	}
	return s.Anchor.validate()
}

// Rate returns the rate that l sets for the limit with this name in the rules document.
func (l *Limits) Rate(name string) (r Rate, ok bool) {
	r, ok = l.set.Rates[name]
	return r, ok
}

// Names returns the names of the limits, sorted.
func (l *Limits) Names() []string {
	if l == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(l.set.Rates))
}

// Anchor returns the first day of a calendar period; "" for the anchor of the document.
func (l *Limits) Anchor() string {
	if l == nil {
		return ""
	}
	return string(l.set.Anchor)
}

// AnchorOf returns the Anchor if a period p can begin on it, and "" otherwise.
func (l *Limits) AnchorOf(p algo.Period) string {
	day := string(l.set.Anchor)
	if isWeekday := slices.Contains(algo.Weekdays(), day); p == algo.Week && isWeekday || p == algo.Month && !isWeekday {
		return day
	}
	return ""
}

// Changed returns the time of the last change in Unix seconds; 0 if the limits were never set.
func (l *Limits) Changed() int64 {
	if l == nil {
		return 0
	}
	return l.set.Changed
}

// Mistake returns the reason why the limits of the record are ignored; nil if they are valid.
func (l *Limits) Mistake() error { return l.mistake }

// Text returns the JSON form. Limits with equal texts are equal.
func (l *Limits) Text() string { return l.text }

// String describes the limits for operators, such as "month=2000000 search=5000/1m anchor=31".
func (l *Limits) String() string {
	if l == nil {
		return ""
	}
	var words []string
	for _, name := range l.Names() {
		words = append(words, name+"="+l.set.Rates[name].String())
	}
	if l.set.Anchor != "" {
		words = append(words, "anchor="+string(l.set.Anchor))
	}
	if l.mistake != nil {
		words = append(words, "(invalid)")
	}
	return strings.Join(words, " ")
}

// MarshalJSON implements json.Marshaler.
func (l *Limits) MarshalJSON() ([]byte, error) { return json.Marshal(l.set) }

// UnmarshalJSON implements json.Unmarshaler. A mistake is an error, unlike in ParseLimits.
func (l *Limits) UnmarshalJSON(text []byte) error {
	*l = *ParseLimits(string(bytes.TrimSpace(text)))
	return l.mistake
}

// Rate is the rate of a limit in a record: the requests and, unless it is 0, the window. A Window of 0
// means the window or the calendar period of the limit in the document.
type Rate struct {
	Requests int64
	Window   time.Duration
}

const wantRate = "want requests such as 2000000, or requests and a window such as 5000/1m"

// ParseRate parses a rate such as "5000/1m" or "2000000".
func ParseRate(text string) (r Rate, err error) {
	requests, window, windowed := strings.Cut(text, "/")
	if len(text) > 64 || strings.HasPrefix(requests, "+") {
		return Rate{}, fmt.Errorf("invalid rate (got %.70q); %s", text, wantRate)
	}
	r.Requests, err = strconv.ParseInt(requests, 10, 64)
	if err != nil {
		return Rate{}, fmt.Errorf("invalid rate (got %.70q); %s", text, wantRate)
	}
	if windowed {
		if days, ok := strings.CutSuffix(window, "d"); ok {
			n, failed := strconv.ParseUint(days, 10, 7)
			r.Window, err = time.Duration(n)*24*time.Hour, failed
		} else {
			r.Window, err = time.ParseDuration(window)
		}
		if err != nil || r.Window == 0 {
			return Rate{}, fmt.Errorf("invalid rate (got %.70q); %s", text, wantRate)
		}
	}
	return r, r.validate()
}

func (r Rate) validate() error {
	switch {
	case r.Requests < 1 || r.Requests > algo.MaxAmount:
		return fmt.Errorf("requests: out of range (got %d, want 1 to %d)", r.Requests, int64(algo.MaxAmount))
	case r.Window != 0 && (r.Window < limiter.MinWindow || r.Window > algo.MaxWindow || r.Window%time.Second != 0):
		return fmt.Errorf("window: out of range (got %s, want whole seconds from 1s to 100d)", r.Window)
	}
	return nil
}

// String returns the form that ParseRate parses.
func (r Rate) String() string {
	text := strconv.FormatInt(r.Requests, 10)
	for _, unit := range []struct {
		name string
		time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}} {
		if r.Window > 0 && r.Window%unit.Duration == 0 {
			return text + "/" + strconv.FormatInt(int64(r.Window/unit.Duration), 10) + unit.name
		}
	}
	return text
}

// MarshalText implements encoding.TextMarshaler.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRate(string(text))
	return err
}

// anchor is a day of the month from "1" to "31", or a weekday. In JSON, a day of the month is a number.
type anchor string

func (a anchor) validate() error {
	n, err := strconv.Atoi(string(a))
	if a == "" || slices.Contains(algo.Weekdays(), string(a)) || err == nil && n >= 1 && n <= 31 && strconv.Itoa(n) == string(a) {
		return nil
	}
	return fmt.Errorf("anchor: invalid (got %.40q, want a day of the month from 1 to 31, or a weekday from monday to sunday)", string(a))
}

// MarshalJSON implements json.Marshaler.
func (a anchor) MarshalJSON() ([]byte, error) {
	if n, err := strconv.Atoi(string(a)); err == nil {
		return strconv.AppendInt(nil, int64(n), 10), nil
	}
	return json.Marshal(string(a))
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *anchor) UnmarshalJSON(text []byte) error {
	var day json.Number
	if bytes.HasPrefix(text, []byte(`"`)) {
		return json.Unmarshal(text, (*string)(a))
	}
	err := json.Unmarshal(text, &day)
	*a = anchor(day)
	return err
}
