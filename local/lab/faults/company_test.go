package faults

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/resilient"
	"github.com/weir-limits/weir/limiter/rules"
)

// companyFaults are faults whose result depends on the callers and on the times of their requests. The
// functions in their fields begin or company send these requests.
var companyFaults = []fault{
	{name: "requests are lost for longer than 5 s", begin: poisoned("up", "timeout", nil), end: healed, sees: limiter.ReasonTimeout,
		count: countsNone, lull: 5500 * time.Millisecond},
	{name: "requests with two subjects are lost", company: askPairs, count: countsThen,
		note: "`store_timeout`, then `store_breaker`; after the fault, the first request succeeds"},
	{name: "16 concurrent requests of one caller are lost, seven times", company: askTogether, count: countsThen,
		note: "429 `subject_busy` in the first five rounds; then `store_breaker`, and `store_timeout` once per half second"},
	{name: "an environment starts while requests are lost", company: startAlone, count: countsThen,
		note: "the start takes 900 ms; after it `store_timeout`, then `store_breaker`"},
	{name: "an environment is frozen for longer than 1 s, and its connections are closed", company: frozen(1100 * time.Millisecond),
		count: countsAll, extra: 2},
	{name: "an environment is frozen for longer than 5 s, and its connections lose all data", company: frozen(5500 * time.Millisecond),
		count: countsAll, extra: 2},
}

const pair = "pair" // endpoint with two limits: one for each address, and one for all callers

// degraded checks the answer to a request on a limit with on_error allow. The environment must admit the
// request without the store, within the given time.
func (p *problems) degraded(a answer, within time.Duration) {
	if a.status != http.StatusNoContent || a.degraded != limiter.ReasonTimeout && a.degraded != limiter.ReasonBreaker || a.took > within {
		p.add("answer: got %+v, want it degraded within %s", a, within)
	}
}

// askPairs sends requests with two subjects while the network drops the store calls. After the fault, the
// first request that reaches the store must charge both subjects.
func askPairs(t *testing.T, found *problems, w *world) {
	t.Helper()
	w.ask(client, pair)
	w.network.poison(t, "up", "timeout", nil)
	for range during {
		found.degraded(w.ask(client, pair), w.deadline+w.allowance())
	}
	healed(t, w)
	resumed := eventually(t, "both subjects are counted again", func() bool {
		charges := w.app.Rules.Current().Charges(nil, http.MethodGet, rules.EncodedPath("/"+pair), caller.Caller{IP: address(client)})
		d, err := w.app.Limiter.Take(t.Context(), time.Now(), charges)
		if err != nil || (d.Reason == limiter.ReasonNone) != (d.StoreCalls > 0) || d.Reason == limiter.ReasonNone &&
			d.StoreCalls != len(charges) {
			found.add("%+v, %v", d, err)
		}
		return d.Reason == limiter.ReasonNone
	})
	if resumed > w.back() {
		found.add("first use of the store: got after %s, want at most %s", resumed, w.back())
	}
}

// askTogether sends 16 requests of one caller at once, seven times, while the network drops the store
// calls. The 16 requests share one store call. Until the breaker opens, a failed call counts as
// pressure on the caller.
func askTogether(t *testing.T, found *problems, w *world) {
	t.Helper()
	w.ask(client, "plenty")
	w.network.poison(t, "up", "timeout", nil)
	var mu sync.Mutex
	for round := range resilient.Failures + 2 {
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				a := w.ask(client, "plenty")
				mu.Lock()
				defer mu.Unlock()
				if a.degraded != limiter.ReasonBusy || round >= resilient.Failures {
					found.degraded(a, w.deadline+w.allowance())
				}
				if busy := a.degraded == limiter.ReasonBusy; busy != (a.status == http.StatusTooManyRequests) || !busy &&
					round < resilient.Failures-1 || a.took > w.deadline+w.allowance() {
					found.add("round %d: %+v", round+1, a)
				}
			})
		}
		all.Wait()
	}
	healed(t, w)
	if resumed := eventually(t, "the store is used again",
		func() bool { return w.ask(onlooker, "plenty").degraded == "" }); resumed > w.back() {
		found.add("first use of the store: got after %s, want at most %s", resumed, w.back())
	}
}

// startAlone starts an environment while the network drops the environment's requests to the store. It then
// sends requests until the store answers.
func startAlone(t *testing.T, found *problems, w *world) {
	t.Helper()
	w.network.poison(t, "up", "timeout", nil)
	begun := time.Now()
	e, reached, err := startEnvironment(w.variables, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); reached == nil || took > limiter.DefaultTimeout+w.allowance() {
		found.add("it started in %s, and reached the store: %t", took, reached == nil)
	}
	found.degraded(e.ask(client, "plenty"), limiter.DefaultTimeout+w.allowance())
	for range during {
		found.degraded(e.ask(client, "plenty"), w.deadline+w.allowance())
	}
	healed(t, w)
	if resumed := eventually(t, "the store is used", func() bool { return e.ask(onlooker, "plenty").degraded == "" }); resumed > w.back() {
		found.add("first use of the store: got after %s, want at most %s", resumed, w.back())
	}
	if err := e.close(); err != nil {
		t.Error(err)
	}
}

// frozen returns the field company of a fault. The environment of the fault is a process that the test
// freezes between requests, as Lambda does. The frozen process loses its connections.
func frozen(pause time.Duration) func(*testing.T, *problems, *world) {
	return func(t *testing.T, found *problems, w *world) {
		t.Helper()
		n := connect(t, w.network.proxy.Upstream)
		p := startProcess(t, append([]string{w.at(n.address())}, w.variables...)) // the first value of a variable has precedence
		defer p.kill(t)
		freeze := func(signal syscall.Signal) {
			if err := p.command.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
		}
		ask := func(what string) {
			t.Helper()
			begun := time.Now()
			p.ask(t)
			line, err := p.output.ReadString('\n')
			if took := time.Since(begun); err != nil || line != fmt.Sprintln(http.StatusNoContent, limiter.ReasonNone) || took > w.deadline+
				w.allowance() {
				found.add("%s: %q in %s: %v", what, line, took, err)
			}
		}
		ask("before")
		freeze(syscall.SIGSTOP)
		if pause < resilient.ConnectionLife {
			n.hangUp(t)
		} else {
			n.forget(t)
		}
		within(t.Context(), pause) // a charge on a connection that was idle for a shorter time is not repeated
		freeze(syscall.SIGCONT)
		ask("after")
	}
}

// within waits for d or until ctx ends.
func within(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
