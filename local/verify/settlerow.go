package verify

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-limits/weir/limiter/httplimit"
)

// These bound the test of settlements. The log of a REST API reaches the function that settles it after some minutes.
const (
	settleRequests = 5
	settleTries    = 20
	maxSettlePause = 10 * time.Second
)

var settlement = Row{
	ID:    "settlement",
	Claim: "A cost that is known after the answer is settled: a success is refunded, and a request in flight is released.",
	Hand:  "`curl -si` of an endpoint whose limit counts `failures` or `concurrent`, twice, some minutes apart: `X-RateLimit-Remaining` is the same",
	Needs: []Need{NeedAnyURL},
	After: []string{"store-decides"},
	Cost:  Cost{Requests: countingCost + settleRequests + settleTries, Settles: true},
	Check: func(ctx context.Context, s *session) Observation {
		if reason := s.notCounting(ctx); reason != "" {
			return skipped(reason)
		}
		t, r := s.plan.Settled, s.get(s.urls()[0], s.plan.Settled.Path)
		answers := append([]answer{s.send(ctx, r)}, s.sendAll(ctx, r, settleRequests-1)...)
		first := answers[0]
		for _, a := range answers {
			if reason := t.unsettleable(a); reason != "" {
				return skipped(reason)
			}
		}
		if first.remaining() >= t.Capacity {
			return skipped("the answer does not show the reserve of its own request")
		}
		expected := fmt.Sprintf("%d of the limit remain again, because all requests succeeded", first.remaining())
		var last answer
		pause := time.Second
		for range settleTries {
			last = s.send(ctx, r)
			reason := cmp.Or(t.unsettleable(last), t.regains(first, last))
			switch {
			case reason != "":
				return skipped(reason)
			case last.remaining() >= first.remaining():
				return passed(expected, fmt.Sprint(last.remaining()))
			}
			if err := s.wait(ctx, pause, "costs are not settled yet"); err != nil {
				return skipped(fmt.Sprintf("%d of %d remain, and a later settlement was not awaited: %v", last.remaining(), first.remaining(), err))
			}
			pause = min(2*pause, maxSettlePause)
		}
		return failed(expected, fmt.Sprint(last.remaining()), last.String())
	},
}

// remaining returns what an answer shows as the rest of the limit.
func (a answer) remaining() int {
	n, err := strconv.Atoi(a.header.Get(httplimit.RemainingField))
	if err != nil {
		return -1
	}
	return n
}

// unsettleable returns the reason why the answer to a request proves nothing about its settlement, or "".
func (t *Target) unsettleable(a answer) string {
	switch name, _ := limitOf(a.header); {
	case a.refused():
		return UsedUp
	case a.err != nil || a.status >= http.StatusBadRequest || a.degraded() != "":
		return "no success that the store decided (got " + a.summary() + ")"
	case a.remaining() < 0 || name != "" && name != t.Limit:
		return fmt.Sprintf("the answer does not show the limit %s; give the deployed rules with --rules", t.Limit)
	}
	return ""
}

// regains returns the reason why the limit can have regained the requests by itself, or "".
func (t *Target) regains(first, last answer) string {
	reset := last.header.Get(httplimit.ResetField)
	switch {
	case !t.bucket && reset != first.header.Get(httplimit.ResetField):
		return "a window of the limit ended during the test; run again"
	case last.ended.Sub(first.sent) >= settleRequests*t.Refill:
		return fmt.Sprintf("the limit regains a request in %s, which hides a late settlement", t.Refill)
	}
	return ""
}
