package faults

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"net/http"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/resilient"
)

// fault is one line of the table. It describes a fault of a store, the answers that callers see
// during the fault, and the requests that the store counts.
type fault struct {
	name  string
	begin func(*testing.T, *world)
	// company replaces begin. It sends the requests and adds the problems that it finds.
	company func(*testing.T, *problems, *world)
	end     func(*testing.T, *world) // nil if the fault ends without an action
	sees    limiter.Reason           // the reason in answers without the store; ReasonNone if the store decides
	once    bool                     // the fault affects only the first request
	lives   bool                     // the store answers every call, possibly with an error, so the breaker does not open
	count   counting
	extra   int           // number of counted requests by other callers
	lull    time.Duration // a pause without requests during the fault
	note    string        // what callers see, if company sends the requests
}

// counting describes the requests that the store counts during a fault.
type counting string

const (
	countsNone counting = "nothing"                                            // the store did not receive them
	countsSome counting = "each request at most once"                          // the store has possibly received them
	countsAll  counting = "each request"                                       // the same as without a fault
	countsLost counting = "nothing; earlier counts are lost"                   // the store lost its data
	countsThen counting = "no request during the fault, each request after it" // for faults with company
	countsAnew counting = "each request, but earlier counts are lost"          // the store is empty after the fault
)

const (
	client   = "192.0.2.1"
	onlooker = "192.0.2.2" // sends requests until the store has recovered

	before = 3 // number of requests to each endpoint before a fault
	during = 6 // number of requests to each endpoint during a fault

	// The deadlines of the first run are three times the defaults, because on a busy machine a server
	// without a fault can miss the defaults.
	deadlineRedis    = 150 * time.Millisecond
	deadlineDynamoDB = 300 * time.Millisecond
	// deadlineLongest is less than the delay of the fault with late answers.
	deadlineLongest = 600 * time.Millisecond
	// allowance is the maximum time between the store's deadline and the answer in the first run. It is
	// 20 ms plus the scheduling delay of a busy machine.
	allowance = 20*time.Millisecond + 400*time.Millisecond
	// back is the maximum time until the environment uses a recovered store, in the first run.
	back = time.Second
)

// world is an environment, its store and the network between them.
type world struct {
	group string // label of this test's goroutines (groupLabel); "" means that all goroutines belong to this test
	*environment
	document string                      // the rules; if empty, the environment uses the constant document
	at       func(address string) string // returns the variable that sets the address of the store
	direct   *environment                // uses the same store, without the network
	deadline time.Duration
	run      int // number of earlier runs of the fault; each run allows twice the time of the run before it
	network  *network
	dynamo   *dynamo
	server   *server // the Redis server, or the cluster node that the fault kills
	replica  *server
	cluster  *cluster
	arrive   func() // completes the move of a slot
}

// problems are differences between the results and the line of the table.
type problems []string

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

// tries is the maximum number of runs of a fault. A run with problems is repeated with longer deadlines,
// because on a very busy machine a server can miss the deadline without a fault.
const tries = 3

// setDeadline sets the deadline of the store, which is usually d.
func (w *world) setDeadline(d time.Duration) { w.deadline = min(d<<w.run, deadlineLongest) }

// allowance is the maximum time between the store's deadline and the answer.
func (w *world) allowance() time.Duration { return allowance << w.run }

// back is the maximum time until the environment uses a recovered store.
func (w *world) back() time.Duration { return back << w.run }

// test runs the fault f, at most tries times. It fails if every run differs from the line of f in the table.
func (f *fault) test(t *testing.T, group string, open func(*testing.T, *world)) {
	var found problems
	for i := range tries {
		w := &world{group: group, run: i}
		open(t, w)
		found = f.run(t, w)
		w.end(t)
		if len(found) == 0 {
			return
		}
		t.Logf("try %d:\n%s", i+1, strings.Join(found, "\n"))
	}
	t.Fail()
}

// build builds two environments. One connects to the store through the network, and one directly.
func (w *world) build(t *testing.T, through, directly string, both ...string) {
	t.Helper()
	both = slices.Clip(append(both, "NAMESPACE=faults-"+rand.Text(), "STORE_TIMEOUT="+w.deadline.String()))
	rules := cmp.Or(w.document, document)
	w.environment = newEnvironment(t, rules, append(both, w.at(through))...)
	w.direct = newEnvironment(t, rules, append(both, w.at(directly))...)
	eventually(t, "the store is quick", func() bool {
		a := w.direct.ask(onlooker, "plenty")
		return a.degraded == "" && a.took < w.deadline/5
	})
}

// observe connects the direct environment to a different store.
func (w *world) observe(t *testing.T, address string) {
	t.Helper()
	if err := w.direct.close(); err != nil {
		t.Error(err)
	}
	// if a variable has two values, the first applies
	w.direct = newEnvironment(t, document, append([]string{w.at(address)}, w.direct.variables...)...)
}

// run runs the fault f once. It returns the differences between the run and the line of f in the table.
func (f *fault) run(t *testing.T, w *world) (found problems) {
	for range before {
		for _, policy := range policies {
			if !w.normal(&found, policy) {
				return found
			}
		}
	}
	if f.company != nil {
		f.company(t, &found, w)
	} else {
		f.begin(t, w)
	}
	failed, admitted, alone := f.meanwhile(t, &found, w)
	if f.end != nil {
		f.end(t, w)
	}
	if resumed := eventually(t, "the store is used again",
		func() bool { return w.ask(onlooker, policies[0]).degraded == "" }); resumed > w.back() {
		found.add("first use of the store: got after %s, want at most %s", resumed, w.back())
	}
	for _, policy := range policies {
		f.settled(t, &found, w, policy, failed[policy], admitted, alone)
	}
	return found
}

// normal sends a request and reports whether the store allowed it.
func (w *world) normal(found *problems, policy string) bool {
	a := w.ask(client, policy)
	ok := a.status == http.StatusNoContent && a.degraded == ""
	if !ok {
		found.add("%s without a fault: got %+v, want a decision by the store", policy, a)
	}
	return ok
}

// meanwhile sends requests during the fault. by is the number of failed store calls for each policy. For
// on_error local, admitted is the number of admitted requests, and alone is the number of requests that
// the environment admitted without the store.
func (f *fault) meanwhile(t *testing.T, found *problems, w *world) (by map[string]int, admitted, alone int) {
	t.Helper()
	begun, dialed := time.Now(), w.dialed()
	failed, spared, worst := 0, 0, time.Duration(0)
	by = map[string]int{}
	for i := range during {
		if i == during/2 {
			within(t.Context(), f.lull)
		}
		for _, policy := range policies {
			a := w.ask(client, policy)
			worst = max(worst, a.took)
			if policy == "local" && a.status == http.StatusNoContent {
				admitted++
				if a.degraded != "" {
					alone++
				}
			}
			switch a.degraded {
			case limiter.ReasonNone:
			case limiter.ReasonBreaker:
				spared++
			case f.sees:
				failed++
				by[policy]++
			default:
				found.add("%s %d: %+v, want the reason %q", policy, i, a, f.sees)
			}
			if want := a.want(policy, i); a.status != want || (a.retry != "") != (want != http.StatusNoContent) {
				found.add("%s %d: %+v, want status %d", policy, i, a, want)
			}
		}
	}
	t.Logf("failed calls %d, calls that the breaker prevented %d, slowest answer %s, connections %d", failed, spared, worst, w.dialed()-dialed)
	if limit := w.deadline + w.allowance(); worst > limit {
		found.add("slowest answer: got %s, want at most %s", worst, limit)
	}
	f.checkAttempts(found, failed, spared, time.Since(begun))
	// A failed call causes one new connection. Up to three more are correct, because the client also opens
	// connections if all its connections are busy.
	if dialed := w.dialed() - dialed; int(dialed) > failed+3 {
		found.add("new connections for %d failed calls: got %d, want at most 3 more than the calls", failed, dialed)
	}
	return by, admitted, alone
}

// want returns the expected status of a caller's request i during a fault.
func (a answer) want(policy string, i int) int {
	switch {
	case a.degraded == "":
	case policy == "deny":
		return http.StatusServiceUnavailable
	case policy == "local" && i >= share:
		return http.StatusTooManyRequests
	}
	return http.StatusNoContent
}

// checkAttempts checks the number of requests whose store call failed. For all other requests, the
// breaker must prevent a call.
func (f *fault) checkAttempts(found *problems, failed, spared int, took time.Duration) {
	all := during * len(policies)
	low, high, rest := 0, 0, 0
	switch {
	case f.sees == limiter.ReasonNone:
	case f.once:
		low, high = 1, 1
	case f.lives:
		low, high = all, all
	default:
		low = resilient.Failures
		high = low + int(took/resilient.Pause) // the breaker sends one probe after each pause
		rest = all - failed
	}
	if failed < low || failed > high || spared != rest {
		found.add("%d requests: got %d failed calls, want %d to %d; got %d prevented by the breaker, want %d", all, failed, low, high, spared,
			rest)
	}
}

// dialed returns the number of connections that the network has accepted.
func (w *world) dialed() int64 {
	if w.network == nil {
		return 0
	}
	return w.network.dialed.Load()
}

// settled checks the counts after the fault. Exactly the rest of the limit must remain. Requests that the
// environment admitted with its local count also reduce this rest.
func (f *fault) settled(t *testing.T, found *problems, w *world, policy string, failed, admitted, alone int) {
	t.Helper()
	low, high := before, before
	switch f.count {
	case countsNone:
	case countsSome:
		high += failed
		if f.once {
			low, high = low+during-failed, high+during-failed
		}
	case countsAll, countsThen:
		low, high = before+during, before+during
	case countsLost:
		low, high = 0, 0
	case countsAnew:
		low, high = during, during
	}
	if policy == policies[0] {
		low, high = low+f.extra, high+f.extra
	}
	counted := w.direct.counted(t, client, policy)
	if counted < low || counted > high {
		found.add("%s: counted requests: got %d, want %d to %d", policy, counted, low, high)
	}
	if policy == "local" && alone > 0 {
		counted = max(counted, before+admitted)
	}
	for i := counted; i < requests; i++ {
		if !w.normal(found, policy) {
			return
		}
	}
	// The count of the outage refuses before the store does.
	if a := w.ask(client, policy); a.status != http.StatusTooManyRequests || a.degraded != limiter.ReasonNone &&
		(policy != "local" || a.degraded != limiter.ReasonOutage) {
		found.add("%s: request above the limit: got %+v, want a refusal", policy, a)
	}
}

// end closes w. It checks that no goroutine remains.
func (w *world) end(t *testing.T) {
	t.Helper()
	for _, e := range []*environment{w.environment, w.direct} {
		if err := e.close(); err != nil {
			t.Error(err)
		}
	}
	if w.network != nil {
		w.network.proxy.Stop()
	}
	noGoroutines(t, w.group)
}

// groupLabel is the key of a label of goroutines. Its value is the name of the parallel test that started the
// goroutine.
const groupLabel = "group"

// noGoroutines checks that no goroutine of the group remains. An empty group means all goroutines.
func noGoroutines(t *testing.T, group string) {
	t.Helper()
	var left []string
	defer func() {
		if len(left) > 0 {
			t.Log(strings.Join(left, "\n\n"))
		}
	}()
	label := ""
	if group != "" {
		label = fmt.Sprintf("%q:%q", groupLabel, group)
	}
	ours := func() (left []string) {
		var stacks strings.Builder
		if err := pprof.Lookup("goroutine").WriteTo(&stacks, 1); err != nil { // 1: with labels
			t.Fatal(err)
		}
		for stack := range strings.SplitSeq(stacks.String(), "\n\n") {
			for _, name := range []string{"weir/limiter", "weir/functions", "redis/go-redis", "aws/aws-sdk-go"} {
				if strings.Contains(stack, name) && strings.Contains(stack, label) && !strings.Contains(stack, "testing.tRunner+") {
					left = append(left, stack)
					break
				}
			}
		}
		return left
	}
	eventually(t, "no goroutine is left", func() bool { left = ours(); return len(left) == 0 })
}
