package faults

import (
	"net/http"
	"syscall"
	"testing"
	"time"
)

// daily is the limit of the endpoint that has no on_error.
const daily = 57

// flood sends n requests. Each answer must be 204 or 429. It returns the number of admitted
// requests and the duration of the slowest answer.
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
			t.Errorf("answer: got %+v, want 204 or 429", a)
		}
	}
	return admitted, worst
}

// Redis stops while the connections are idle. The first answer takes 250 ms, and no answer takes
// longer. The environment admits exactly the rest of the limit. After the outage, the server still has
// its counts. (TestDeadline_idle of functions/boot checks the exact duration.)
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
	t.Logf("admitted %d of the remaining %d requests, slowest answer %s; the machine delayed answers by at most %s", admitted, daily-10, worst,
		late)
	if least, most := 250*time.Millisecond, 300*time.Millisecond+late; worst < least || worst >= most {
		t.Errorf("slowest answer: got %s, want at least %s, and less than 300 ms plus the machine's delay of %s", worst, least, late)
	}
	if admitted != daily-10 {
		t.Errorf("requests that one environment admitted in the outage: got %d, want %d", admitted, daily-10)
	}
	eventually(t, "the store is used again", func() bool { return w.ask(onlooker, "plenty").degraded == "" })
	if after := w.direct.counted(t, client, "default"); after < before || after > before+breakerCalls {
		t.Errorf("counted requests: got %d, want %d plus at most %d calls without an answer", after, before, breakerCalls)
	}
	if admitted, _ := w.flood(t, 20); admitted != 0 {
		t.Errorf("admitted requests after the recovery: got %d, want 0", admitted)
	}
}

// measureLateness starts to measure the delay with which a sleeping goroutine wakes up. The returned
// function ends the measurement and returns the maximum delay.
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

// breakerCalls is the maximum number of calls to a silent store in a test. It includes the calls until
// the breaker opens, and then one probe each half second.
const breakerCalls = 10

// If the store does not recover, one environment admits exactly the limit, including the requests before
// the outage.
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
				t.Errorf("admitted requests: got %d before the outage and %d in it, want %d in total", before, admitted, daily)
			}
		})
	}
}
