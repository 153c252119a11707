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

	callers identities[[]*Intervention]
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
	for i := range v.List {
		identity, err := v.List[i].check()
		if err != nil {
			return fmt.Errorf("list[%d]: %w", i, err)
		}
		list, _ := v.callers.get(identity)
		v.callers.set(identity, append(list, &v.List[i]))
	}
	return nil
}

// Of returns the interventions that act on a caller at an instant, a block first.
func (v *Interventions) Of(c caller.Caller, at time.Time) (acting []Intervention) {
	if v == nil {
		return nil
	}
	v.callers.known(&c, func(list []*Intervention) {
		for _, one := range list {
			if !one.Ended(at) {
				acting = append(acting, *one)
			}
		}
	})
	slices.SortStableFunc(acting, func(a, b Intervention) int { return min(len(a.Limit), 1) - min(len(b.Limit), 1) })
	return acting
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

// blocked returns the block of the caller of a request that ends last; nil if there is none. The rules have interventions.
func (r *Rules) blocked(q *Request) (block *Intervention) {
	r.interventions.callers.known(&q.Caller, func(list []*Intervention) {
		for _, one := range list {
			if one.Limit == "" && !one.Ended(q.At) && (block == nil || block.End < one.End) {
				block = one
			}
		}
	})
	return block
}

// raised returns the number that operators set for the limit l of a caller, or 0, and a version that is higher after each
// begin and end. If l counts by several identities, or several networks contain the address, the first one with a version
// decides.
func (r *Rules) raised(q *Request, l *limit) (requests, version int64) {
	now := q.At.Unix()
	for _, part := range slices.Backward(r.classes[l.class].parts) {
		r.interventions.callers.of(part.word, "", &q.Caller, func(list []*Intervention) bool {
			for _, one := range list {
				switch {
				case one.Limit == "" || now < one.Begin:
				case now >= one.End:
					version = max(version, one.End)
				default:
					version = max(version, one.Begin)
					if one.Limit == l.Name {
						requests = one.Requests
					}
				}
			}
			return version == 0
		})
		if version > 0 {
			return requests, max(1, version-r.interventions.Floor)
		}
	}
	return 0, 0
}
