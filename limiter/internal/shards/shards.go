// Package shards is the layer of limits that count in several parts.
package shards

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/chain"
	"github.com/weir-limits/weir/limiter/internal/domain"
)

// Shards charges one shard of a limit with Spread.Shards, and a second one if the first refuses. Such a limit has an ask of
// its own.
type Shards struct {
	chain.Below
	*chain.Process
}

// Know implements chain.Layer. It leaves a at a shard that is not known to refuse, or at the refusal with the shortest wait.
func (s *Shards) Know(a *chain.Ask) (refuses bool) {
	if parts(a) == nil {
		return s.Below.Know(a)
	}
	return s.pick(a, nil)
}

// Take implements chain.Layer.
func (s *Shards) Take(a *chain.Ask) {
	if parts(a) == nil {
		s.Below.Take(a)
		return
	}
	if a.Charges[0].Limit == a.Lines[0].Limit && s.pick(a, nil) {
		return
	}
	s.Below.Take(a)
	if a.Verdict != chain.Refused {
		return
	}
	first := refusalOf(a)
	if s.pick(a, a.Charges[0].Limit) {
		return
	}
	s.Below.Take(a)
	if a.Verdict == chain.Admitted {
		return
	}
	if a.Err == nil {
		first = first.shorter(a)
	}
	for i := range parts(a) { // the denial cache may have a shard with a shorter wait
		if s.knows(a, i) {
			first = first.shorter(a)
		}
	}
	first.answer(a) // the refusal of the first shard counts, even if the call for the second one failed
}

func parts(a *chain.Ask) []*domain.Limit { return a.Lines[0].Limit.Parts() }

// pick makes a charge a random shard. It skips shards that are known to refuse, and the shard tried, which has just refused.
// If no shard is left, pick returns true, and a reports the refusal with the shortest wait.
func (s *Shards) pick(a *chain.Ask, tried *domain.Limit) (refused bool) {
	shards, answer := parts(a), refusal{}
	if tried != nil {
		answer = refusalOf(a)
	}
	first := s.IntN(len(shards))
	for i := range shards {
		shard := (first + i) % len(shards)
		if shards[shard] == tried {
			continue
		}
		if !s.knows(a, shard) {
			a.Verdict, a.Early = chain.Unanswered, false
			return false
		}
		answer = answer.shorter(a)
	}
	answer.answer(a)
	return true
}

// knows makes a charge a shard, and reports whether the layers below know that it refuses.
func (s *Shards) knows(a *chain.Ask, shard int) (refuses bool) {
	c := &a.Charges[0]
	c.Subject, c.Limit, a.Results[0] = a.Subject.Shard(shard), parts(a)[shard], algo.Result{}
	return s.Below.Know(a)
}

// refusal is the refusal of a shard. The zero value means no refusal.
type refusal struct {
	charge  domain.Charge
	result  algo.Result
	backOff time.Duration
}

func refusalOf(a *chain.Ask) refusal { return refusal{a.Charges[0], a.Results[0], a.Lines[0].BackOff} }

// answer makes a report the refusal.
func (f refusal) answer(a *chain.Ask) {
	a.Charges[0], a.Results[0], a.Lines[0].BackOff = f.charge, f.result, f.backOff
	a.Verdict = chain.Refused
}

// shorter returns the refusal with the shorter wait: f, or that of the shard that a charges.
func (f refusal) shorter(a *chain.Ask) refusal {
	other, want := refusalOf(a), a.Lines[0].Want
	if f.result.Machine == nil || other.wait(a.Now, want) < f.wait(a.Now, want) {
		return other
	}
	return f
}

// wait returns the shortest time until the shard can admit the cost.
func (f refusal) wait(now algo.Instant, cost int64) time.Duration {
	return max(f.backOff, f.result.RetryAfter(now, cost))
}
