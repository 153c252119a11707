package httpclient

import (
	"math"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
)

const (
	// answerTime bounds how long requests wait for the response to a probe, or to those that use the rest of a quota.
	answerTime = time.Second
	pollTime   = 20 * time.Millisecond // between two looks for such a response
	// unlimited is the number of remaining requests if the API does not report it.
	unlimited = math.MaxInt64
)

// quota is the known state of one quota.
type quota struct {
	refusals int

	mu       sync.Mutex
	breaker  circuitbreaker.CircuitBreaker[any]
	probing  bool  // the API has refused the last request
	left     int64 // remaining requests until the reset, including those in flight
	capacity int64
	reset    time.Time // when the quota is full again
	blocked  time.Time // no request is sent before
	inFlight int64
	sent     time.Time // of the last request
	refused  time.Time // arrival of the last refusal that the breaker counted; refusals of requests in flight together count as one
}

func newQuota(refusals int) *quota {
	// The breaker needs no delay, because turn permits no request before blocked.
	breaker := circuitbreaker.NewBuilder[any]().WithFailureThreshold(uint(refusals)).WithSuccessThreshold(1).WithDelay(0).Build()
	return &quota{refusals: refusals, probing: true, left: unlimited, breaker: breaker}
}

// turn returns how long a request must wait, or an error if it would have to wait longer than giveUp. If the wait is 0, the
// request is in flight: call leave or forget. At giveUp, turn permits a request that waits only because the remaining
// requests are spread over time.
func (q *quota) turn(now, giveUp time.Time) (time.Duration, *WaitError) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at, spread := q.blocked, false
	switch left := q.left - q.inFlight; {
	case at.After(now), !q.probing && (!now.Before(q.reset) || left > q.capacity/4):
	case !q.probing && left > 0:
		at, spread = q.sent.Add(q.reset.Sub(q.sent)/time.Duration(left+1)), true
	case q.inFlight > 0 && now.Before(q.sent.Add(answerTime)): // its response says how many may follow
		at = now.Add(pollTime)
	}
	if wait := at.Sub(now); wait > 0 {
		rest := giveUp.Sub(now)
		switch {
		case !spread && (wait > rest || !q.breaker.IsClosed()):
			return 0, q.failure(wait)
		case rest > 0:
			return min(wait, rest), nil
		}
	}
	if !q.breaker.TryAcquirePermit() {
		return 0, q.failure(answerTime)
	}
	q.inFlight++
	q.sent = now
	return 0, nil
}

func (q *quota) failure(wait time.Duration) *WaitError {
	e := &WaitError{Wait: wait}
	if !q.breaker.IsClosed() {
		e.Refusals = q.refusals
	}
	return e
}

// leave ends a request with a response. If another quota answered, this one did not refuse.
func (q *quota) leave(another bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inFlight--
	if another {
		q.probing = false
		q.breaker.RecordSuccess()
	}
}

// learn updates the quota after the response to a request.
func (q *quota) learn(sent time.Time, a advice, now time.Time, maxWait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	fresh := !sent.Before(q.refused) // the request was sent after the last refusal arrived
	switch {
	case a.refused:
		if until := now.Add(a.wait); until.After(q.blocked) {
			q.blocked = until
		}
		q.probing = true
		if fresh {
			q.refused = now
			q.breaker.RecordFailure()
		}
	case fresh:
		q.breaker.RecordSuccess()
		q.probing, q.left, q.capacity = false, unlimited, 0
		if a.known {
			q.left, q.capacity, q.reset = a.left, a.capacity, now.Add(a.reset)
		}
		if q.left == 0 { // some quotas have room earlier than they announce
			q.blocked = now.Add(min(a.reset, maxWait/2))
		}
	}
}

// forget ends a request without a response. It assumes that the API has counted the request.
func (q *quota) forget() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inFlight--
	if q.left > 0 && q.left < unlimited {
		q.left--
	}
	if !q.breaker.IsClosed() {
		q.breaker.RecordFailure()
	}
}
