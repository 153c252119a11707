package simulate

import (
	"fmt"
	"slices"

	"github.com/weir-limits/weir/limiter"
)

// own returns the charges of a caller on limits that it does not share with other callers.
func (s *Scenario) own() []limiter.Charge {
	others := s.charges(2)
	return slices.DeleteFunc(s.charges(1), func(c limiter.Charge) bool { return slices.Contains(others, c) })
}

// divide divides the limits that callers share by the size of the sample, because the simulated callers send only this
// part of the requests.
func (s *Scenario) divide() error {
	if s.sample() == 1 {
		return nil
	}
	divided := map[*limiter.Limit]*limiter.Limit{}
	own := s.own()
	for _, c := range s.charges(1) {
		if slices.Contains(own, c) {
			continue
		}
		made, err := s.Parameters.divide(c.Limit)
		if err == nil && c.Cost > made.MaxCost() {
			err = fmt.Errorf("limit %q: got a cost of %d, want at most %d, its capacity in the sample", c.Limit.Name, c.Cost, made.MaxCost())
		}
		if err != nil {
			return err
		}
		divided[c.Limit] = made
	}
	charges := s.Charges
	s.Charges = func(dst []limiter.Charge, caller uint32) []limiter.Charge {
		dst = charges(dst, caller)
		for i := range dst {
			if made := divided[dst[i].Limit]; made != nil {
				dst[i].Limit = made
			}
		}
		return dst
	}
	return nil
}

// divide returns the part of a limit that a sample of the requests can use.
func (p *Parameters) divide(l *limiter.Limit) (*limiter.Limit, error) {
	n := int64(p.sample())
	if l.Rate.Requests < n {
		return nil, fmt.Errorf("limit %q: got %d requests, want at least %d, because all callers share it; simulate all requests", l.Name, l.Rate.Requests, n)
	}
	part := *l
	for _, number := range []*int64{&part.Rate.Requests, &part.Rate.Burst, &part.Spread.Lease} {
		if *number > 0 {
			*number = max(1, (*number+n/2)/n)
		}
	}
	return limiter.NewLimit(part)
}
