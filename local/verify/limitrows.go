package verify

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/weir-limits/weir/limiter/httplimit"
)

var storeDecides = Row{
	ID:    "store-decides",
	Claim: "The functions can use the store: no answer has `Weir-Degraded`.",
	Hand:  "`curl -si $URL/api/v1/search | grep -i weir-degraded`; the alarm `degraded`",
	Needs: []Need{NeedAnyURL},
	Cost:  Cost{Requests: 4 * probeCost},
	Check: func(ctx context.Context, s *session) Observation {
		const expected = "no Weir-Degraded"
		var decided int
		var last answer
		for _, url := range s.urls() {
			switch last = s.probe(ctx, url); {
			case last.degraded() != "":
				return failed(expected, httplimit.DegradedField+": "+last.degraded(), last.String())
			case last.decided():
				decided++
			}
		}
		if decided == 0 {
			return skipped(fmt.Sprintf("no answer has the fields of a limit (got %s)", last.summary()))
		}
		return passed(expected, fmt.Sprintf("none of %d URLs has it", decided))
	},
}

var limitExact = Row{
	ID:    "limit-exact",
	Claim: "The limit admits exactly what remains of it, even of concurrent requests.",
	Hand:  "`seq 80 | xargs -P 80 -I{} curl -so /dev/null -w '%{http_code}\\n' $URL/api/v1/items/1 | sort | uniq -c`",
	Needs: []Need{NeedAnyURL},
	After: []string{"store-decides", "rest-not-cached"},
	Cost:  Cost{Burst: true},
	Check: func(ctx context.Context, s *session) Observation {
		b := s.first(ctx)
		if b.reason != "" {
			return skipped(b.reason)
		}
		if b.low(s.plan.Exact) {
			return skipped(fmt.Sprintf("only %d of the limit remained; run again later, or raise --wait", b.remaining))
		}
		if n := b.busy(); n > b.remaining/2 {
			return skipped(fmt.Sprintf("%d of %d requests got 429 %s; choose fewer --clients", n, len(b.answers), subjectBusy))
		}
		allowed, degraded := 0, ""
		for _, a := range b.answers {
			degraded = cmp.Or(a.degraded(), degraded)
			switch {
			case a.allowed():
				allowed++
			case !a.refused():
				return failed("an answer to each of "+strconv.Itoa(len(b.answers))+" requests", a.summary(), a.String())
			}
		}
		from, to := b.bounds(s.plan.Exact)
		expected := fmt.Sprintf("%d of %d requests pass", from, len(b.answers))
		if from != to {
			expected = fmt.Sprintf("%d to %d of %d requests pass", from, to, len(b.answers))
		}
		observed := fmt.Sprintf("%d pass", allowed)
		if degraded != "" {
			observed += fmt.Sprintf(", some of them without the store (%s: %s)", httplimit.DegradedField, degraded)
		}
		if allowed < from || allowed > to {
			return failed(expected, observed, "")
		}
		return passed(expected, observed)
	},
}

var retryAfter = Row{
	ID:    "retry-after",
	Claim: "A caller that waits for `Retry-After` is admitted.",
	Hand:  "Exceed a limit, wait for `Retry-After` seconds, and send the request again.",
	Needs: []Need{NeedAnyURL},
	After: []string{"store-decides"},
	Cost:  Cost{Requests: 1, Exhaust: true},
	Check: func(ctx context.Context, s *session) Observation {
		url := s.urls()[0]
		refused, ok := s.exhaust(ctx, url, s.plan.Quick)
		if !ok {
			return skipped("no limit refused a request; the last answer is " + refused.summary())
		}
		t, err := refused.seconds(httplimit.RetryAfterField)
		if err != nil {
			return skipped(err.Error())
		}
		if err := s.wait(ctx, t, "Retry-After"); err != nil {
			return skipped(fmt.Sprintf("Retry-After is %s: %v", t, err))
		}
		a := s.send(ctx, s.get(url, s.plan.Quick.Path))
		expected := fmt.Sprintf("admitted after %s", t)
		if a.err != nil || a.refused() || a.status >= http.StatusInternalServerError {
			return failed(expected, a.summary(), a.String())
		}
		if a.status >= http.StatusBadRequest && !a.allowed() {
			return skipped("the answer after the wait shows no decision of a limit (got " + a.summary() + ")")
		}
		return passed(expected, strconv.Itoa(a.status))
	},
}
