package telemetry

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/netip"
	"slices"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
)

const (
	maxTracked = 1000 // number of pairs of caller and limit that are counted separately
	maxNamed   = 10   // number of pairs that get a line
)

// refusals counts refusals for each pair of caller and limit. Its memory is bounded: further pairs
// are counted together.
type refusals struct {
	counts map[refusal]int64
	others int64
}

// refusal is the pair of a caller's strongest identity and the limit that refused. It does not
// contain a Subject, because a Subject needs an allocation.
type refusal struct {
	user, apiKey string
	ip           netip.Prefix
	limit        string
}

func newRefusal(c caller.Caller, l *limiter.Limit) refusal {
	var r refusal
	switch {
	case c.User != "":
		r.user = c.User
	case c.APIKey != "":
		r.apiKey = c.APIKey
	default:
		r.ip = c.IP
	}
	if l != nil {
		r.limit = l.Name
	}
	return r
}

func (r refusal) subject() limiter.Subject {
	return caller.Caller{User: r.user, APIKey: r.apiKey, IP: r.ip}.Subject()
}

func (s *refusals) add(r refusal) {
	if _, known := s.counts[r]; !known && len(s.counts) == maxTracked {
		s.others++
		return
	}
	s.counts[r]++
}

// refusedLine is a line of the log. A line without a subject counts all other callers.
type refusedLine struct {
	Weir    string `json:"weir"` // always "refused"
	Subject string `json:"subject,omitempty"`
	Limit   string `json:"limit,omitempty"`
	Refused int64  `json:"refused"`
}

// write writes a line for each of the most refused pairs, and one line for all other pairs.
func (s *refusals) write(out *json.Encoder, hash SubjectHash) {
	most := slices.SortedFunc(maps.Keys(s.counts), func(a, b refusal) int { return cmp.Compare(s.counts[b], s.counts[a]) })
	for i, r := range most {
		if i < maxNamed {
			_ = out.Encode(refusedLine{"refused", hash(r.subject()), r.limit, s.counts[r]})
		} else {
			s.others += s.counts[r]
		}
	}
	if s.others > 0 {
		_ = out.Encode(refusedLine{Weir: "refused", Refused: s.others})
	}
}
