package faults

import (
	"net/http"
	"syscall"
	"testing"
	"time"
)

// daily is the limit of the endpoint without on_error.
const daily = 57

// flood sends n requests, which must all be admitted or refused. It returns the number of admitted
// requests and the time of the slowest.
func (w *world) flood(t *testing.T, n int) (admitted int, worst time.Duration) {
	t.Helper()
	for range n {
		a := w.ask(client, "default")
		worst = max(worst, a.took)
		switch a.status {
		case http.StatusNoContent:
			admitted++
		case http.StatusTooManyRequests:
		default:
			t.Errorf("%+v, want 204 or 429", a)
		}
	}
	return admitted, worst
}

// A Redis is stopped after the connections have been idle. No answer takes longer than the first,
// 250 ms. The environment admits exactly the rest of the limit, and the server has the count
// afterwards. TestDeadline_idle of functions/boot has the time to the nanosecond.
func TestOutage_stopped(t *testing.T) {
	w := &world{}
	overRedis(t, w)
	defer w.end(t)
	for range 10 {
		w.ask(client, "default")
	}
	before := w.direct.counted(t, client, "default")
	w.app.Clock = func() time.Time { return time.Now().Add(10 * time.Second) }
	w.handler = w.app.Serve(served)
	w.server.signal(t, syscall.SIGSTOP)
	lateness := measureLateness()
	admitted, worst := w.flood(t, 100)
	late := lateness()
	w.server.signal(t, syscall.SIGCONT)
	t.Logf("%d admitted of %d that were left, the slowest answer took %s; the machine was up to %s late", admitted, daily-10, worst, late)
	if least, most := 250*time.Millisecond, 300*time.Millisecond+late; worst < least || worst >= most {
		t.Errorf("the slowest answer took %s, want at least %s, and less than 300 ms and the %s that the machine was late", worst, least, late)
	}
	if admitted != daily-10 {
		t.Errorf("%d admitted, want %d: one environment enforces the limit alone", admitted, daily-10)
	}
	eventually(t, "the store is used again", func() bool { return w.ask(onlooker, "plenty").degraded == "" })
	if after := w.direct.counted(t, client, "default"); after < before || after > before+breakerCalls {
		t.Errorf("%d are counted, want %d and at most the %d calls that were lost", after, before, breakerCalls)
	}
	if admitted, _ := w.flood(t, 20); admitted != 0 {
		t.Errorf("%d more admitted when the store is back, want none", admitted)
	}
}

// measureLateness returns a function that ends the measurement, and returns by how much a sleeping
// goroutine woke up too late at most.
func measureLateness() (end func() time.Duration) {
	done, most := make(chan struct{}), make(chan time.Duration)
	go func() {
		const nap = time.Millisecond
		worst := time.Duration(0)
		for {
			select {
			case <-done:
				most <- worst
				return
			default:
				begun := time.Now()
				time.Sleep(nap)
				worst = max(worst, time.Since(begun)-nap)
			}
		}
	}()
	return func() time.Duration {
		close(done)
		return <-most
	}
}

// breakerCalls is the maximum number of calls of a silent store in the test: until the breaker
// opens, and then one each half second.
const breakerCalls = 10

// The store does not come back. An environment without earlier requests admits the limit alone, and
// so does one that has admitted some before.
func TestOutage_gone(t *testing.T) {
	for _, store := range stores[:2] {
		t.Run(store.name, func(t *testing.T) {
			w := &world{}
			store.open(t, w)
			defer w.end(t)
			before, _ := w.flood(t, 10)
			w.network.proxy.Stop()
			admitted, _ := w.flood(t, 200)
			if before+admitted != daily {
				t.Errorf("%d admitted, and %d in the outage, want %d together", before, admitted, daily)
			}
		})
	}
}
