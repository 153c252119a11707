package telemetry

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
)

const (
	maxTracked = 1000 // number of pairs of caller and limit that are counted separately
	maxNamed   = 18   // number of callers that get a line; two more lines count the others
)

// refusals counts refusals for each pair of caller and limit. Its memory is bounded: further pairs
// are counted together.
type refusals struct {
	counts map[refusal]*refused
	others [2]refused // of LineRefused and of LineShadowed
}

// refusal is a pair of a caller and a limit.
type refusal struct {
	identity
	rule, limit     string
	shadow, blocked bool
}

// identity is the strongest identity of a caller. It is no Subject, because a Subject needs an allocation.
type identity struct {
	user, apiKey string
	ip           netip.Prefix
}

// refused has the number of refusals and the numbers of the last one.
type refused struct {
	count, capacity, remaining int64
	at                         int64 // nanoseconds of the wall clock
	retryAfter                 time.Duration
	addressFrom                string
}

func newRefusal(c caller.Caller, l *limiter.Limit, shadow bool) refusal {
	r := refusal{shadow: shadow}
	switch {
	case c.User != "":
		r.user = c.User
	case c.APIKey != "":
		r.apiKey = c.APIKey
	default:
		r.ip = c.IP
	}
	if l != nil {
		r.rule, r.limit = l.Rule, l.Name
	}
	return r
}

func (i identity) subject() limiter.Subject {
	return caller.Caller{User: i.user, APIKey: i.apiKey, IP: i.ip}.Subject()
}

// add counts last, one refusal.
func (s *refusals) add(r refusal, last refused) {
	sum := s.counts[r]
	switch {
	case sum != nil:
	case len(s.counts) < maxTracked:
		sum = &refused{}
		s.counts[r] = sum
	default:
		s.otherOf(r).add(refused{count: last.count, at: last.at})
		return
	}
	sum.add(last)
}

// add adds refusals that came later.
func (s *refused) add(last refused) {
	last.count += s.count
	last.at = max(last.at, s.at)
	*s = last
}

func (s *refusals) otherOf(r refusal) *refused { return &s.others[r.kind()] }

// kind returns the index of the pair in refusals.others.
func (r refusal) kind() int {
	if r.shadow {
		return 1
	}
	return 0
}

func (s *refusals) pending() bool {
	return len(s.counts) > 0 || s.others[0].count > 0 || s.others[1].count > 0
}

// written is a line of refusals: of a pair, or of all others.
type written struct {
	refusal
	refused
	others bool
}

// take removes the counts of one write: the pairs with the most refusals, at most one for each caller, and the sums of
// the callers without a line. Of equal counts, requests that were refused come before those of limits in shadow mode,
// and later ones first. It keeps the other pairs of the callers with a line for the next write.
func (s *refusals) take() (lines []written) {
	pairs := slices.SortedFunc(maps.Keys(s.counts), func(a, b refusal) int {
		x, y := s.counts[a], s.counts[b]
		return cmp.Or(cmp.Compare(y.count, x.count), cmp.Compare(a.kind(), b.kind()), cmp.Compare(y.at, x.at))
	})
	kept, named := map[refusal]*refused{}, map[identity]bool{}
	for _, r := range pairs {
		sum := s.counts[r]
		switch {
		case named[r.identity]:
			kept[r] = sum
		case len(named) < maxNamed:
			named[r.identity] = true
			lines = append(lines, written{r, *sum, false})
		default:
			s.otherOf(r).add(refused{count: sum.count, at: sum.at})
		}
	}
	for i, sum := range s.others {
		if sum.count > 0 {
			lines = append(lines, written{refusal{shadow: i == 1}, sum, true})
		}
	}
	*s = refusals{counts: kept}
	return lines
}

func (w *written) write(out *json.Encoder, hash SubjectHash) {
	l := DecisionLine{
		Kind: LineRefused, Time: time.Unix(0, w.at).UTC().Truncate(time.Millisecond), Limit: w.limit,
		Capacity: w.capacity, Remaining: w.remaining, RetryAfter: float64(w.retryAfter.Milliseconds()) / 1000, Count: w.count,
	}
	l.Blocked = w.blocked
	if w.shadow {
		l.Kind = LineShadowed
	}
	if w.rule != "" {
		l.Rule = RuleName(w.rule)
	}
	if !w.others {
		l.Subject, l.AddressFrom = hash(w.subject()), w.addressFrom
	}
	_ = out.Encode(l) // an error of the log cannot be reported anywhere else
}
