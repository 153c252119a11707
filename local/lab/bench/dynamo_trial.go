package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// outcome has the cost and the errors of one contender in one scenario.
type outcome struct {
	requests     figure // requests to DynamoDB for each decision
	over, failed figure // number of wrongly admitted requests, and number of failed decisions
}

// trial is one run of a scenario with one contender. Each trial has its own caller.
type trial struct {
	ctx         context.Context
	start       time.Time
	random      *mathrand.Rand
	environment func() decideDynamo
	meter       *meter

	mu        sync.Mutex
	decisions int
	failed    int
	admitted  []algo.Instant
	// The counts at the start of the measured part of the trial.
	decisionsBefore int
	requestsBefore  int64
}

// noon is the start of the simulated clocks. It is not a boundary of a window.
var noon = time.Date(2100, 3, 4, 12, 0, 3, 0, time.UTC)

func (m *dynamoMeasure) trial(ctx context.Context, c dynamoContender, s scenario, round int) (outcome, error) {
	t := &trial{ctx: ctx, start: noon, random: newRandom(round), meter: &meter{client: m.client}}
	place := dynamoPlace{t.meter, m.table, rand.Text()}
	limits, err := s.limitsOf(c.algorithm)
	if err != nil {
		return outcome{}, err
	}
	t.environment = func() decideDynamo { return c.environment(place, limits) }
	if err := s.run(t); err != nil {
		return outcome{}, err
	}
	o := outcome{
		requests: figure(t.meter.requests.Load()-t.requestsBefore) / figure(t.decisions-t.decisionsBefore),
		failed:   figure(t.failed),
	}
	switch {
	case c.aligned:
		o.over = figure(t.over(limits))
	case s.name == atOnce:
		o.over = figure(max(0, len(t.admitted)-int(usual.requests)))
	}
	return o, nil
}

func (s scenario) limitsOf(a algo.Algorithm) ([]*limiter.Limit, error) {
	var limits []*limiter.Limit
	for i, b := range s.limits {
		rate := algo.Rate{Algorithm: a, Requests: b.requests, Window: b.window}
		if a == algo.SlidingLog {
			rate.Requests = min(rate.Requests, algo.MaxLog)
		}
		l, err := limiter.NewLimit(limiter.Limit{Name: string(rune('a' + i)), Rate: rate})
		if err != nil {
			return nil, err
		}
		limits = append(limits, l)
	}
	return limits, nil
}

// decide makes one decision. It counts errUndecided as a failed decision.
func (t *trial) decide(decide decideDynamo, now time.Time) error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	allowed, err := decide(t.ctx, now)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.decisions++
	switch {
	case errors.Is(err, errUndecided):
		t.failed++
	case err != nil:
		return err
	case allowed:
		t.admitted = append(t.admitted, algo.InstantOf(now))
	}
	return nil
}

// forget excludes all decisions so far from the cost. The check for over-admission still includes them.
func (t *trial) forget() {
	t.decisionsBefore = t.decisions
	t.requestsBefore = t.meter.requests.Load()
}

// over returns the number of requests that were admitted over the limits. It replays the admitted requests
// in the order of their instants and counts the requests that the limits refuse.
func (t *trial) over(limits []*limiter.Limit) (over int) {
	slices.SortFunc(t.admitted, cmp.Compare)
	states := make([]algo.State, len(limits))
	for _, at := range t.admitted {
		all := true
		for i, l := range limits {
			var ok bool
			states[i], ok = l.Machine().Take(states[i], at, 1)
			all = all && ok
		}
		if !all {
			over++
		}
	}
	return over
}
