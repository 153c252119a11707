package rules

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// These constants bound interventions.
const (
	MaxInterventions = 2000
	MaxIntervention  = 366 * 24 * time.Hour
	maxIdentity      = 4 << 10 // bytes of a caller
	maxNote          = 256     // bytes
	maxInterventions = 2 << 20 // bytes of JSON
)

// Intervention is what an operator decided about one caller beside the rules, until it ends: a block, or another number
// for a limit.
type Intervention struct {
	// Kind and Value are the caller: user, apikey (the id of the key's record), or ip (an address or a network).
	Kind  string `json:"kind"`
	Value string `json:"value"`
	// Limit is the name of the limit that admits Requests; "" for a block.
	Limit    string `json:"limit,omitempty"`
	Requests int64  `json:"requests,omitempty"`
	Begin    int64  `json:"begin"` // in Unix seconds
	End      int64  `json:"end"`   // in Unix seconds
	Note     string `json:"note,omitempty"`
	Edge     string `json:"edge,omitempty"` // key of the block in the KeyValueStore of a distribution; "" for none
}

// Ended reports whether the intervention has ended at an instant. One that ends when it begins has.
func (i *Intervention) Ended(at time.Time) bool { return at.Unix() >= i.End || i.End == i.Begin }

// Subject returns the caller in the form in which commands print it.
func (i *Intervention) Subject() string {
	switch i.Kind {
	case document.PerUser:
		return limiter.User(i.Value).String()
	case document.PerAPIKey:
		return limiter.APIKey(i.Value).String()
	}
	return i.Kind + ":" + i.Value
}

// String describes the intervention for operators.
func (i *Intervention) String() string {
	text := i.Subject() + " is blocked"
	if i.Limit != "" {
		text = fmt.Sprintf("%s has %d requests of the limit %s", i.Subject(), i.Requests, i.Limit)
	}
	text += time.Unix(i.End, 0).UTC().Format(" until 2006-01-02 15:04:05 UTC")
	if i.Note != "" {
		text += " (" + i.Note + ")"
	}
	return text
}

func (i *Intervention) same(as *Intervention) bool {
	return i.Kind == as.Kind && i.Value == as.Value && i.Limit == as.Limit
}

// identity returns the caller. ok is false if it has a mistake.
func (i *Intervention) identity() (of document.Identity, ok bool) {
	of = document.Identity{Kind: i.Kind, Value: i.Value}
	switch i.Kind {
	case document.PerUser, document.PerAPIKey:
		return of, i.Value != "" && len(i.Value) <= maxIdentity
	case document.PerIP:
		var err error
		of.Network, err = netip.ParsePrefix(i.Value)
		if err != nil {
			var addr netip.Addr
			addr, err = netip.ParseAddr(i.Value)
			of.Network = netip.PrefixFrom(addr, addr.BitLen())
		}
		return of, err == nil && of.Network == of.Network.Masked() && !of.Network.Addr().Is4In6() && !strings.Contains(i.Value, "%")
	}
	return of, false
}

func (i *Intervention) check() (of document.Identity, err error) {
	of, ok := i.identity()
	blocks := i.Limit == "" && i.Requests == 0
	switch {
	case !ok:
		return of, fmt.Errorf("got %.40q of kind %.40q, want a user or an apikey of 1 to %d bytes, or an ip", i.Value, i.Kind, maxIdentity)
	case !blocks && (!limiter.IsName(i.Limit) || i.Requests < 1 || i.Requests > algo.MaxAmount):
		return of, fmt.Errorf("got %d requests of the limit %.40q, want 1 to %d of a name in the rules", i.Requests, i.Limit,
			int64(algo.MaxAmount))
	case i.Begin < 1 || i.End < i.Begin || i.End-i.Begin > int64(MaxIntervention/time.Second):
		return of, fmt.Errorf("got the times %d to %d, want Unix seconds, at most 366 days apart", i.Begin, i.End)
	case len(i.Note) > maxNote:
		return of, fmt.Errorf("note: got %d bytes, want at most %d", len(i.Note), maxNote)
	}
	return of, nil
}

// Interventions are what operators decided beside the rules. They are immutable and safe for concurrent use. nil and the
// zero value have none.
type Interventions struct {
	// Version grows with every change.
	Version int64 `json:"version"`
	// Floor is a part of the version of every limit. A limit of a caller gets a higher version when its number changes,
	// and it must not fall when an ended intervention is removed.
	Floor int64          `json:"floor,omitempty"`
	List  []Intervention `json:"list"`

	callers identities[*intervened]
}

// intervened is what the interventions do to one caller.
type intervened struct {
	block  *Intervention // the block that ends last; nil for none
	phases []phase       // in order of time
}

// phase has the numbers of a caller's limits from an instant on, in Unix seconds.
type phase struct {
	from int64
	own  *caller.Limits
	key  string // of the limits that own makes
}

// ParseInterventions parses the JSON form of interventions. No text means none.
func ParseInterventions(text []byte) (*Interventions, error) {
	v := &Interventions{}
	if len(text) == 0 {
		return v, nil
	}
	if len(text) > maxInterventions {
		return nil, fmt.Errorf("interventions: got %d bytes, want at most %d", len(text), maxInterventions)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("data after the JSON object")
		}
	}
	if err == nil {
		err = v.index()
	}
	if err != nil {
		return nil, fmt.Errorf("interventions: %w", err)
	}
	return v, nil
}

func (v *Interventions) index() error {
	if len(v.List) > MaxInterventions || v.Version < 1 || v.Floor < 0 || v.Floor > v.Version {
		return fmt.Errorf("got %d entries, version %d and floor %d, want at most %d entries, and a floor of at most the version", len(v.List),
			v.Version, v.Floor, MaxInterventions)
	}
	raised := map[document.Identity][]*Intervention{}
	for i := range v.List {
		one := &v.List[i]
		identity, err := one.check()
		if err != nil {
			return fmt.Errorf("list[%d]: %w", i, err)
		}
		of, ok := v.callers.get(identity)
		if !ok {
			of = &intervened{}
			v.callers.set(identity, of)
		}
		if one.Limit != "" {
			raised[identity.Key()] = append(raised[identity.Key()], one)
		} else if of.block == nil || of.block.End < one.End {
			of.block = one
		}
	}
	for identity, list := range raised {
		of, _ := v.callers.get(identity)
		err := of.phase(list, v.Floor)
		if err != nil {
			return err
		}
	}
	return nil
}

// phase makes the phases of a caller from its raised limits. When one begins or ends, its limits get a higher version.
func (o *intervened) phase(list []*Intervention, floor int64) error {
	var instants []int64
	for _, i := range list {
		instants = append(instants, i.Begin, i.End)
	}
	slices.Sort(instants)
	for _, at := range slices.Compact(instants) {
		rates := map[string]caller.Rate{}
		for _, i := range list {
			if i.Begin <= at && at < i.End {
				rates[i.Limit] = caller.Rate{Requests: i.Requests}
			}
		}
		own, err := caller.NewLimits(rates, "", max(1, at-floor))
		if err != nil {
			return fmt.Errorf("%s: %w", list[0].Subject(), err)
		}
		o.phases = append(o.phases, phase{at, own, "raised " + own.Text()})
	}
	return nil
}

// of calls visit with what the interventions do to a caller by its address, and by its verified identities.
func (v *Interventions) of(c *caller.Caller, visit func(*intervened)) {
	if v == nil || len(v.callers.values) == 0 {
		return
	}
	v.callers.networks(c.IP, func(o *intervened) bool {
		visit(o)
		return true
	})
	if c.Rejected {
		return
	}
	for _, i := range [...]document.Identity{{Kind: document.PerUser, Value: c.User}, {Kind: document.PerAPIKey, Value: c.APIKey}} {
		if o, ok := v.callers.get(i); ok { // no entry has an empty value
			visit(o)
		}
	}
}

// Of returns the interventions that act on a caller at an instant, a block first.
func (v *Interventions) Of(c caller.Caller, at time.Time) (list []Intervention) {
	if v == nil {
		return nil
	}
	for i := range v.List {
		one := &v.List[i]
		identity, _ := one.identity()
		is := one.Kind == document.PerIP && c.IP.IsValid() && identity.Network.Bits() <= c.IP.Bits() && identity.Network.Contains(c.IP.Addr())
		is = is || !c.Rejected && (one.Kind == document.PerUser && one.Value == c.User ||
			one.Kind == document.PerAPIKey && one.Value == c.APIKey)
		if is && !one.Ended(at) {
			list = append(list, *one)
		}
	}
	slices.SortStableFunc(list, func(a, b Intervention) int { return min(len(a.Limit), 1) - min(len(b.Limit), 1) })
	return list
}

// Put returns the interventions with a further one, which replaces one for the same caller and limit. It begins at the
// time now. If it ends then, an earlier one ends. An error says that there are too many,
// or that their text is too long to be read again.
func (v *Interventions) Put(now time.Time, one Intervention) (*Interventions, error) {
	made := &Interventions{Floor: v.Floor, Version: max(now.Unix(), v.Version+1)}
	one.Begin = now.Unix()
	for _, old := range v.List {
		if old.Kind == one.Kind && old.Value == one.Value && old.Limit != "" { // each change of a caller has an instant of its own
			one.Begin = max(one.Begin, old.Begin+1)
			if old.Ended(now) {
				one.Begin = max(one.Begin, old.End+1)
			}
		}
		switch {
		case old.same(&one):
		case old.Limit == "" && old.Ended(now):
		default:
			made.List = append(made.List, old)
		}
	}
	one.End = max(one.End, one.Begin)
	if one.Limit != "" || one.End > one.Begin {
		made.List = append(made.List, one)
	}
	if len(made.List) > MaxInterventions { // ended numbers stay while there is room, because their end is a part of versions
		made.List = slices.DeleteFunc(made.List, func(i Intervention) bool {
			ended := i.Ended(now)
			if ended {
				made.Floor = max(made.Floor, i.End)
				made.Version = max(made.Version, made.Floor)
			}
			return ended
		})
	}
	if len(made.List) > MaxInterventions {
		return nil, fmt.Errorf("got %d blocks and raised limits, want at most %d; wait until some end, or end them with weir unblock",
			len(made.List), MaxInterventions)
	}
	text, err := json.MarshalIndent(made, "", "  ")
	if err == nil && len(text) > maxInterventions {
		err = fmt.Errorf("got blocks and raised limits of %d bytes, want at most %d; wait until some end", len(text), maxInterventions)
	}
	return made, cmp.Or(err, made.index())
}

// With returns the same rules with interventions. r does not change.
func (r *Rules) With(v *Interventions) *Rules {
	made := *r
	made.interventions = v
	return &made
}

// Interventions returns those of With.
func (r *Rules) Interventions() *Interventions { return r.interventions }

// blocked returns the block of the caller of a request; nil if there is none.
func (r *Rules) blocked(q *Request) (block *Intervention) {
	r.interventions.of(&q.Caller, func(o *intervened) {
		if o.block != nil && !o.block.Ended(q.At) && (block == nil || block.End < o.block.End) {
			block = o.block
		}
	})
	return block
}

// raise applies what interventions set for a caller to the limit a, which applies without them in place of l.
func (r *Rules) raise(who *caller.Caller, at time.Time, l *limit, a applied) applied {
	if r.interventions == nil {
		return a
	}
	var now *phase
	for _, part := range slices.Backward(r.classes[l.class].parts) {
		r.interventions.callers.of(part.word, "", who, func(o *intervened) bool {
			for i := range o.phases {
				if o.phases[i].from <= at.Unix() {
					now = &o.phases[i]
				}
			}
			return now == nil
		})
		if now != nil {
			return r.records.get(recordKey{a.limit, now.key}, func() applied { return r.applyRaise(now.own, l, a) })
		}
	}
	return a
}

// applyRaise makes the limit in place of a. Its version is higher, also if own no longer sets its number: see applyRecord.
func (r *Rules) applyRaise(own *caller.Limits, l *limit, a applied) applied {
	made := *a.limit
	if rate, ok := own.Rate(l.Name); ok {
		if raised, err := r.raised(l.shared, a.limit, rate.Requests); err == nil {
			made, a.overridden = *raised, true
		}
	}
	made.Version += own.Changed()
	if limit, err := limiter.NewLimit(made); err == nil {
		a.limit = limit
	}
	return a
}

// raised returns the limit of, which applies in place of base, with another number of requests.
func (r *Rules) raised(base *identified, of *limiter.Limit, requests int64) (*limiter.Limit, error) {
	l, was := *of, of.Rate
	if was.Algorithm.Logs() && requests > base.Rate.Requests {
		return nil, fmt.Errorf("limit %s: got %d requests, want at most %d: a sliding_log must fit its item", l.Name, requests,
			base.Rate.Requests)
	}
	if was.Burst == was.Requests { // the default
		was.Burst = 0
	}
	l.Rate = r.options.clamp(inherit(was, algo.Rate{Requests: requests}))
	if base.spec.Spread == (limiter.Spread{}) {
		l.Spread, _ = r.options.spread(base.spec, l.Rate, l.Global)
	} else {
		l.Spread.Lease = min(l.Spread.Lease, l.Rate.Capacity())
	}
	made, err := r.options.newLimit(l)
	if err == nil && base.cost > base.most(made) {
		err = fmt.Errorf("limit %s: got %d requests, want at least %d, the cost in %s", l.Name, requests, base.cost, base.costPath)
	}
	return made, err
}

// CheckIntervention returns an error if the rules have no limit that an intervention can set for its caller.
func (r *Rules) CheckIntervention(i Intervention) error {
	if i.Limit == "" {
		return nil
	}
	counted := r.countedBy(i.Kind, i.Limit)
	if len(counted) == 0 {
		var names []string
		for name := range r.named {
			if len(r.countedBy(i.Kind, name)) > 0 {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return fmt.Errorf("limit %.40s: no limit of this name counts by %s; those that do: %.200s%s", i.Limit, i.Kind,
			strings.Join(names, ", "), document.DidYouMean(i.Limit, names))
	}
	for _, base := range counted {
		if _, err := r.raised(base, base.Limit, i.Requests); err != nil {
			return err
		}
	}
	return nil
}
