package main

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// scenario describes how the requests of one caller arrive.
type scenario struct {
	name       string
	limits     []budget
	concurrent bool // the clock runs during the scenario, and concurrent requests compete
	run        func(*trial) error
}

// budget is a limit without its algorithm.
type budget struct {
	requests int64
	window   time.Duration
}

// usual is the limit of most scenarios: ten requests a second, in windows so short that a scenario has
// several.
var usual = budget{100, 10 * time.Second}

// roomy is a limit that its scenarios never reach.
var roomy = budget{2000, time.Minute}

// These are the names of the rows that the page leaves out, and of the row whose over-admission needs no replay.
const (
	notRemembered = "never seen, one by one at half the limit"
	atOnce        = "400 at one instant on a limit of 100, 64 callers"
)

const floodRate = 100 // requests a second

func spreadRow(n int, load string) string {
	return fmt.Sprintf("spread over %d environments, %s load", n, load)
}

func dynamoScenarios(quick bool) []scenario {
	windows := 6 // length of a scenario in windows of the usual limit
	if quick {
		windows = 3
	}
	all := []scenario{
		{"remembered, one by one at half the limit", []budget{usual}, false, evenly(windows, true)},
		{notRemembered, []budget{usual}, false, evenly(windows, false)},
		{"remembered, three limits", []budget{usual, {2000, time.Minute}, {50_000, time.Hour}}, false, evenly(windows, true)},
		{"64 concurrent callers on one key, remembered", []budget{roomy}, true, competing(64, true)},
		{"64 concurrent callers on one key, never seen", []budget{roomy}, true, competing(64, false)},
		{"five times the limit, one environment", []budget{usual}, false, overloaded},
		{"refused flood, 100 a second", []budget{{10, time.Hour}}, false, flooded},
		{atOnce, []budget{usual}, true, allAtOnce},
	}
	for _, load := range []struct {
		name  string
		share float64
	}{{"half", 0.5}, {"full", 1}} {
		for _, n := range []int{1, 50} {
			all = append(all, scenario{spreadRow(n, load.name), []budget{usual}, false, spread(n, load.share, windows)})
		}
	}
	return all
}

// interval is the time between two requests at the rate of the usual limit.
var interval = usual.window / time.Duration(usual.requests)

// evenly sends requests at half the limit. If remembered is true, one environment decides all requests.
// Otherwise, a new environment decides each request.
func evenly(windows int, remembered bool) func(*trial) error {
	return func(t *trial) error {
		decide := t.environment()
		for i := range windows * int(usual.requests) / 2 {
			if !remembered {
				decide = t.environment()
			}
			if err := t.decide(decide, t.start.Add(time.Duration(i)*2*interval)); err != nil {
				return err
			}
		}
		return nil
	}
}

// competing sends requests from several callers concurrently. Each caller sends its next request when
// its last one is decided. The clock starts at a given instant and then runs.
func competing(callers int, remembered bool) func(*trial) error {
	return func(t *trial) error {
		shared, begun := t.environment(), time.Now()
		each := max(5, 100/callers)
		return together(callers, func(int) error {
			for range each {
				decide := shared
				if !remembered {
					decide = t.environment()
				}
				if err := t.decide(decide, t.start.Add(time.Since(begun))); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// overloaded sends five times the limit to one environment. The first two windows do not count, because
// the caller begins with an unused limit.
func overloaded(t *trial) error {
	decide := t.environment()
	for at, warm := t.start, true; at.Before(t.start.Add(4 * usual.window)); at = at.Add(t.poisson(interval / 5)) {
		if warm && !at.Before(t.start.Add(2*usual.window)) {
			warm = false
			t.forget()
		}
		if err := t.decide(decide, at); err != nil {
			return err
		}
	}
	return nil
}

// flooded sends 100 requests a second for 10 seconds to one environment. The caller has already used up
// its limit of 10 requests an hour.
func flooded(t *trial) error {
	decide := t.environment()
	for range 10 {
		if err := t.decide(decide, t.start); err != nil {
			return err
		}
	}
	t.forget()
	for i := range 10 * floodRate {
		if err := t.decide(decide, t.start.Add(time.Duration(i)*time.Second/floodRate)); err != nil {
			return err
		}
	}
	return nil
}

// allAtOnce sends almost four times the limit at one instant: six requests from each of 64 callers. The
// callers use eight environments.
func allAtOnce(t *trial) error {
	var environments [8]decideDynamo
	for i := range environments {
		environments[i] = t.environment()
	}
	return together(64, func(caller int) error {
		for range 4 * usual.requests / 64 {
			if err := t.decide(environments[caller%len(environments)], t.start); err != nil {
				return err
			}
		}
		return nil
	})
}

// spread sends requests at a rate that is a share of the limit's. Each request goes to a random
// environment.
func spread(environments int, load float64, windows int) func(*trial) error {
	return func(t *trial) error {
		all := make([]decideDynamo, environments)
		for i := range all {
			all[i] = t.environment()
		}
		end := t.start.Add(time.Duration(windows) * usual.window)
		for at := t.start; at.Before(end); at = at.Add(t.poisson(time.Duration(float64(interval) / load))) {
			if err := t.decide(all[t.random.IntN(environments)], at); err != nil {
				return err
			}
		}
		return nil
	}
}

// poisson returns a random time between two arrivals of a Poisson process. The mean of these times is
// mean.
func (t *trial) poisson(mean time.Duration) time.Duration {
	return time.Duration(t.random.ExpFloat64() * float64(mean))
}

// newRandom returns the source of a round's arrivals, the same for all contenders.
func newRandom(round int) *rand.Rand { return rand.New(rand.NewPCG(2026, uint64(round))) }
