package httpclient

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
)

const (
	// answerTime bounds how long requests wait for the response to a probe.
	answerTime = time.Second
	// unlimited is the number of remaining requests if the API does not report it.
	unlimited = math.MaxInt64
)

// quota is the known state of one quota. Requests of a quota are sent one after another. The request that holds the
// channel door, which works as a lock, waits for its turn. All others wait for the door.
type quota struct {
	maxWait  time.Duration
	refusals int
	door     chan struct{} // has capacity 1; the request that waits for its turn holds it
	news     chan struct{} // wakes the request that holds the door

	mu       sync.Mutex
	breaker  circuitbreaker.CircuitBreaker[any]
	heard    bool      // the API has sent a response
	refusing bool      // retryAt comes from a refusal
	left     int64     // remaining requests until the reset, including those in flight
	capacity int64     // capacity of the quota; math.MaxInt64 means unknown
	reset    time.Time // when the quota is full again
	retryAt  time.Time // when a probe may be sent although the quota is exhausted
	inFlight int64
	sent     time.Time // time of the last request; before the first response, time of the first request
	learnt   time.Time // time at which a response last set the field left
	refused  time.Time // arrival of the last refusal that the breaker counted; the refusals of requests in flight together count as one
}

// ticket permits one request to be sent.
type ticket struct {
	sent  time.Time
	probe bool // the quota was exhausted
	trial bool // the breaker is half open and permits this request as a test
}

func newQuota(maxWait time.Duration, refusals int) *quota {
	return &quota{
		maxWait: maxWait, refusals: refusals, capacity: math.MaxInt64,
		door: make(chan struct{}, 1), news: make(chan struct{}, 1),
		// The breaker needs no delay, because turn permits no request before retryAt.
		breaker: circuitbreaker.NewBuilder[any]().WithFailureThreshold(uint(refusals)).WithSuccessThreshold(1).WithDelay(0).Build(),
	}
}

// enter waits until a request may be sent, at most until giveUp. At giveUp, it permits a request that waited only
// because the remaining requests are spread over time. For any other request, it returns an error at giveUp, or
// earlier if the wait is useless. After enter succeeds, call learn or forget.
func (q *quota) enter(ctx context.Context, giveUp time.Time) (ticket, error) {
	if err := ctx.Err(); err != nil {
		return ticket{}, err
	}
	if err := q.refuses(time.Now(), giveUp); err != nil {
		return ticket{}, err
	}
	late := time.NewTimer(time.Until(giveUp))
	defer late.Stop()
	select {
	case q.door <- struct{}{}:
		defer func() { <-q.door }()
	case <-late.C:
	case <-ctx.Done():
		return ticket{}, ctx.Err()
	}
	for {
		now := time.Now()
		t, at, err := q.pass(now, giveUp)
		if err != nil || at.IsZero() {
			return t, err
		}
		turn := time.NewTimer(at.Sub(now))
		select {
		case <-turn.C:
		case <-q.news:
		case <-ctx.Done():
			err = ctx.Err()
		}
		if turn.Stop(); err != nil {
			return ticket{}, err
		}
	}
}

// refuses returns an error if the request cannot be sent before giveUp.
func (q *quota) refuses(now, giveUp time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if at, why := q.turn(now); at.After(now) && q.vain(at, why, giveUp) {
		return q.failure(at.Sub(now))
	}
	return nil
}

// pass returns a ticket or the time of the next try, which is at most giveUp.
func (q *quota) pass(now, giveUp time.Time) (ticket, time.Time, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if at, why := q.turn(now); at.After(now) {
		switch {
		case q.vain(at, why, giveUp):
			return ticket{}, time.Time{}, q.failure(at.Sub(now))
		case now.Before(giveUp):
			if at.After(giveUp) {
				at = giveUp
			}
			return ticket{}, at, nil
		case why != spread && q.heard:
			return ticket{}, time.Time{}, q.failure(at.Sub(now))
		}
	}
	if !q.breaker.TryAcquirePermit() {
		return ticket{}, time.Time{}, q.failure(answerTime)
	}
	t := ticket{sent: now, probe: q.left <= q.inFlight, trial: q.breaker.IsHalfOpen()}
	q.inFlight++
	if q.heard || q.sent.IsZero() {
		q.sent = now
	}
	return t, time.Time{}, nil
}

// reason is the reason why a request waits.
type reason int

const (
	spread   reason = iota // the remaining requests are spread over the time until the reset
	awaiting               // the response to a request in flight can increase the number of remaining requests
	spent                  // the quota is exhausted
)

// turn returns when the next request may be sent, and the reason for the wait. The caller holds q.mu.
func (q *quota) turn(now time.Time) (time.Time, reason) {
	// Subtract the requests in flight, because the last response may not have counted them.
	switch left := q.left - q.inFlight; {
	case left > q.capacity/4, left > 0 && !now.Before(q.reset):
		return time.Time{}, spread
	case left > 0:
		return q.sent.Add(q.reset.Sub(q.sent) / time.Duration(left+1)), spread
	case q.inFlight == 0, q.refusing && now.Before(q.retryAt):
		return q.retryAt, spent
	}
	if answer := q.sent.Add(answerTime); answer.After(q.retryAt) {
		return answer, awaiting
	}
	return q.retryAt, awaiting
}

// vain reports whether it is useless to wait until the time at. why is the reason for the wait, and giveUp is
// its latest end. The caller holds q.mu.
func (q *quota) vain(at time.Time, why reason, giveUp time.Time) bool {
	return why == spent && at.After(giveUp) || why != spread && !q.breaker.IsClosed()
}

func (q *quota) failure(wait time.Duration) error {
	e := &WaitError{Wait: wait}
	if !q.breaker.IsClosed() {
		e.Refusals = q.refusals
	}
	return e
}

// learn updates the quota after the response to a request. counted reports whether this quota issued
// the ticket.
func (q *quota) learn(t ticket, a advice, counted bool, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer q.wake()
	if counted {
		q.inFlight--
	}
	fresh := t.sent.After(q.refused) // the request was sent after the last refusal arrived
	if fresh || t.trial && counted {
		if a.refused {
			q.breaker.RecordFailure()
		} else {
			q.breaker.RecordSuccess()
		}
	}
	switch {
	case a.refused:
		if fresh {
			q.refused = now
		}
		if until := now.Add(a.wait); !q.refusing || until.After(q.retryAt) {
			q.retryAt = until
		}
		q.refusing, q.left = true, 0
	case !fresh:
	case !a.known:
		if t.probe || !q.heard {
			q.refusing, q.left, q.capacity = false, unlimited, unlimited
		}
	default:
		q.take(t, a, now)
	}
	q.heard = true
}

// take updates the quota with the numbers of a response. Responses can arrive out of order. Of the responses to
// requests that were in flight together, the lowest remaining number applies. The caller holds q.mu.
func (q *quota) take(t ticket, a advice, now time.Time) {
	if !t.sent.After(q.learnt) && a.left >= q.left {
		return
	}
	q.learnt = now
	q.refusing, q.left, q.capacity = false, a.left, a.capacity
	q.reset = now.Add(a.reset)
	q.retryAt = now.Add(min(a.reset, q.maxWait/2))
}

// forget ends a request without a response. It assumes that the API has counted the request.
func (q *quota) forget(t ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer q.wake()
	q.inFlight--
	if q.left > 0 && q.left < unlimited {
		q.left--
	}
	if t.trial {
		q.breaker.RecordFailure()
	}
}

func (q *quota) wake() {
	select {
	case q.news <- struct{}{}:
	default:
	}
}
