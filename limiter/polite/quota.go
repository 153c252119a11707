package polite

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
)

const (
	// answerTime is how long requests wait for the answer to one that went ahead to ask.
	answerTime = time.Second
	// unlimited is what is left of a quota that the API says nothing of.
	unlimited = math.MaxInt64
)

// quota is what is known of one quota. Requests enter by its door: one waits there for its
// turn, and the others behind it.
type quota struct {
	maxWait  time.Duration
	refusals int
	door     chan struct{} // holds the one that is at it
	news     chan struct{} // wakes it

	mu       sync.Mutex
	breaker  circuitbreaker.CircuitBreaker[any]
	heard    bool      // there was an answer
	told     bool      // ask is what a refusal said
	left     int64     // how many may be under way or sent until the reset
	capacity int64     // out of how many; math.MaxInt64: not known
	reset    time.Time // when there are more
	ask      time.Time // when one may be sent although nothing is left
	underWay int64
	sent     time.Time // when the last was sent; until there is an answer, the first
	learnt   time.Time // when an answer said what is left
	refused  time.Time // when a refusal came that was news
}

// ticket is what a request enters with.
type ticket struct {
	sent  time.Time
	probe bool // nothing was left: it is to ask
	trial bool // it has the permit of a breaker that is half open
}

func newQuota(maxWait time.Duration, refusals int) *quota {
	return &quota{
		maxWait: maxWait, refusals: refusals, capacity: math.MaxInt64,
		door: make(chan struct{}, 1), news: make(chan struct{}, 1),
		// It has no delay: no permit is asked for before the API may be asked again.
		breaker: circuitbreaker.NewBuilder[any]().WithFailureThreshold(uint(refusals)).WithSuccessThreshold(1).WithDelay(0).Build(),
	}
}

// enter waits until a request may be sent. At giveUp one goes that waits only to spread
// requests, and others fail, at once if it is known that they will. Whoever has entered
// must call learn or forget.
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

// refuses returns the error of a request that need not wait behind others.
func (q *quota) refuses(now, giveUp time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if at, why := q.turn(now); at.After(now) && q.vain(at, why, giveUp) {
		return q.failure(at.Sub(now))
	}
	return nil
}

// pass lets a request in, or says when to try again, not later than giveUp.
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
	t := ticket{sent: now, probe: q.left <= q.underWay, trial: q.breaker.IsHalfOpen()}
	q.underWay++
	if q.heard || q.sent.IsZero() {
		q.sent = now
	}
	return t, time.Time{}, nil
}

// reason is why a request waits.
type reason int

const (
	spread   reason = iota // what is left is spread over the time
	awaiting               // an answer that is under way may say that there is more
	spent                  // nothing is left
)

// turn returns when the next request may be sent, and why not before. The caller holds mu.
func (q *quota) turn(now time.Time) (time.Time, reason) {
	// None of those under way may be counted yet in what is left.
	switch left := q.left - q.underWay; {
	case left > q.capacity/4, left > 0 && !now.Before(q.reset):
		return time.Time{}, spread
	case left > 0:
		return q.sent.Add(q.reset.Sub(q.sent) / time.Duration(left+1)), spread
	case q.underWay == 0, q.told && now.Before(q.ask):
		return q.ask, spent
	}
	if answer := q.sent.Add(answerTime); answer.After(q.ask) {
		return answer, awaiting
	}
	return q.ask, awaiting
}

// vain reports whether there is no use in waiting until at. The caller holds mu.
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

// learn takes in the answer to a request. If the request was not counted by this quota, the
// answer is of others.
func (q *quota) learn(t ticket, a advice, counted bool, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer q.wake()
	if counted {
		q.underWay--
	}
	fresh := t.sent.After(q.refused) // sent when the last refusal was known
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
		if until := now.Add(a.wait); !q.told || until.After(q.ask) {
			q.ask = until
		}
		q.told, q.left = true, 0
	case !fresh:
	case !a.known:
		if t.probe || !q.heard {
			q.told, q.left, q.capacity = false, unlimited, unlimited
		}
	default:
		q.take(t, a, now)
	}
	q.heard = true
}

// take takes in what an answer says is left. Answers overtake each other: of those to requests
// that were under way together the least counts. The caller holds mu.
func (q *quota) take(t ticket, a advice, now time.Time) {
	if !t.sent.After(q.learnt) && a.left >= q.left {
		return
	}
	q.learnt = now
	q.told, q.left, q.capacity = false, a.left, a.capacity
	q.reset = now.Add(a.reset)
	q.ask = now.Add(min(a.reset, q.maxWait/2))
}

// forget takes back a request that has no answer. It may have been counted.
func (q *quota) forget(t ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer q.wake()
	q.underWay--
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
