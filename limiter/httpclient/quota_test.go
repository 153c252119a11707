package httpclient

import (
	"math"
	"testing"
	"time"
)

// answered returns a quota for the minute after noon, with the given number of remaining requests.
func answered(left int64) *quota {
	q := newQuota(time.Hour, 5)
	t, _, _ := q.pass(noon, noon.Add(time.Hour))
	q.learn(t, advice{known: true, left: left, reset: time.Minute, capacity: math.MaxInt64}, true, noon.Add(time.Millisecond))
	return q
}

// Responses can arrive out of order. For requests that were in flight together, the lowest remaining
// number applies. The response to a request that was sent later always applies.
func TestQuota_take(t *testing.T) {
	type step struct {
		sent, came, left, want int64 // sent and came are in seconds after noon; left and want are numbers of requests
	}
	for name, steps := range map[string][]step{
		"together":                         {{1, 2, 50, 50}, {1, 3, 60, 50}, {1, 4, 40, 40}, {1, 5, 45, 40}},
		"later":                            {{1, 2, 50, 50}, {3, 4, 60, 60}},
		"in flight with the lowest number": {{1, 3, 50, 50}, {2, 5, 40, 40}, {4, 6, 70, 40}, {6, 7, 70, 70}},
	} {
		q := answered(100)
		for i, s := range steps {
			at := func(n int64) time.Time { return noon.Add(time.Duration(n) * time.Second) }
			q.learn(ticket{sent: at(s.sent)}, advice{known: true, left: s.left, reset: time.Minute, capacity: math.MaxInt64}, false, at(s.came))
			if q.left != s.want {
				t.Errorf("%s: after answer %d: got %d remaining, want %d", name, i, q.left, s.want)
			}
		}
	}
}

// The API may have counted a request that got no response, so the quota loses one request.
func TestQuota_forget(t *testing.T) {
	q := answered(3)
	sent, _, err := q.pass(noon.Add(time.Minute), noon.Add(time.Hour))
	if err != nil || sent.sent.IsZero() {
		t.Fatal(err)
	}
	if q.forget(sent); q.left != 2 || q.inFlight != 0 {
		t.Errorf("got %d remaining, %d in flight, want 2 and 0", q.left, q.inFlight)
	}
}
