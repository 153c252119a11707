package verify

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/httplimit"
)

// UsedUp is the reason of a row that is skipped because a limit of the caller is used up, for example by an earlier run.
const UsedUp = "the limit is used up; run again later, or raise --wait"

const noCredential = "the deployment requires a credential; set " + tokenVariable + " or " + apiKeyVariable

// closed reports whether the deployment requires a credential that the run lacks.
func (s *session) closed(a answer) bool {
	return a.status == http.StatusUnauthorized && len(s.Credential) == 0
}

func (s *session) allowed(ctx context.Context) Result {
	a := s.patient(ctx, s.get(s.plan.Path))
	if a.degraded() != "" && s.wait(ctx, coldWait, "the store did not decide the request") == nil {
		a = s.send(ctx, s.get(s.plan.Path))
	}
	wrong := wrongFields(a.header)
	switch {
	case a.refused():
		return skipped(UsedUp)
	case s.closed(a):
		return skipped(noCredential)
	case a.err != nil || a.status >= http.StatusInternalServerError:
		wrong = []string{a.summary()}
	case a.degraded() != "":
		wrong = append(wrong, httplimit.DegradedField+": "+a.degraded())
	}
	return verdict("the fields of the limit, and no "+httplimit.DegradedField, wrong, a)
}

func (s *session) limitExact(ctx context.Context) Result {
	t := s.plan.Exact
	r := s.get(t.Path)
	before := s.patient(ctx, r)
	if full := t.Refill * time.Duration(t.Capacity); before.allowed() && before.remaining() < t.Capacity/2 &&
		s.wait(ctx, full, "little of the limit remains") == nil {
		before = s.send(ctx, r)
	}
	left := before.remaining()
	switch {
	case before.refused():
		return skipped(UsedUp)
	case !before.allowed():
		return skipped(fmt.Sprintf("no admitted answer shows what remains of the limit (got %s)", before.summary()))
	case left >= t.Capacity:
		return skipped(fmt.Sprintf("%s is %d, but the rules have a limit of %d requests; give the deployed rules with --rules",
			httplimit.RemainingField, left, t.Capacity))
	case left < t.Capacity/2:
		return skipped(fmt.Sprintf("only %d of the limit remained; run again later, or raise --wait", left))
	}
	answers := s.sendEach(ctx, slices.Repeat([]request{r}, left+extra))
	admitted, busy, degraded, values, end := 0, 0, "", map[int]bool{}, lastEnd(answers)
	for _, a := range answers {
		degraded = cmp.Or(a.degraded(), degraded)
		switch reset := a.header.Get(httplimit.ResetField); {
		case !a.decided():
			return failed(fmt.Sprintf("an answer to each of %d requests", len(answers)), a.summary(), a)
		case t.Ends && reset != "" && reset != before.header.Get(httplimit.ResetField):
			return skipped("a window of the limit ended during the burst; run again")
		case a.problem() == subjectBusy:
			busy++
		case a.allowed():
			values[a.remaining()] = true
			admitted++
		}
	}
	if busy > left/2 {
		return skipped(fmt.Sprintf("%d of %d requests got 429 %s; choose fewer --clients", busy, len(answers), subjectBusy))
	}
	// The limit can regain requests meanwhile. One that was partly used before can also have a fraction of a request left.
	from, to := left-busy, left+int(end.Sub(before.sent)/t.Refill)
	if left < t.Capacity-1 {
		to++
	}
	expected, observed := fmt.Sprintf("%d to %d of %d requests pass", from, to, len(answers)), fmt.Sprintf("%d pass", admitted)
	if degraded != "" {
		observed += fmt.Sprintf(", some of them without the store (%s: %s)", httplimit.DegradedField, degraded)
	}
	switch {
	case admitted == len(answers) && len(values) == 1 && values[left]:
		return failed(expected, observed+", all with the "+httplimit.RemainingField+
			" of the request before: a result of the authorizer is cached", before)
	case admitted < from || admitted > to:
		return failed(expected, observed, answers[0])
	}
	return passed(observed)
}

func (s *session) refused(ctx context.Context) Result {
	const expected = "429 with Retry-After, the fields of the limit and a problem"
	a, ok := s.exhaust(ctx, s.get(s.plan.Exact.Path), s.plan.Exact)
	switch {
	case s.closed(a):
		return skipped(noCredential)
	case !ok:
		return failed(expected, "no limit refused a request; the last answer is "+a.summary(), a)
	}
	return verdict(expected, wrongRefusal(a), a)
}

// forgeries is the number of requests with forged fields.
const forgeries = 5

// forged tests requests without a credential, whose limit counts by the address.
func (s *session) forged(ctx context.Context) Result {
	t := s.plan.Exact
	plain := request{method: http.MethodGet, path: t.Path}
	refused, ok := s.exhaust(ctx, plain, t)
	if !ok {
		return skipped("no limit refused a request without a credential; the last answer is " + refused.summary())
	}
	requests := slices.Repeat([]request{plain}, forgeries)
	for i := range requests {
		address := fmt.Sprintf("192.0.2.%d", i+1) // RFC 5737: an address of nobody
		requests[i].header = http.Header{}
		for name, value := range map[string]string{
			contract.OriginSecretField: "weir-verify", contract.CloudFrontAddressField: address + ":443",
			"X-Forwarded-For": address, "X-Real-IP": address, "True-Client-IP": address, "Forwarded": "for=" + address,
		} {
			requests[i].header.Set(name, value)
		}
	}
	const expected = "a refusal, whatever address the fields of a request name"
	admitted, last, answers := 0, refused, s.sendEach(ctx, requests)
	for _, a := range answers {
		if a.allowed() {
			admitted++
			last = a
		}
	}
	regained := int(lastEnd(answers).Sub(refused.sent)/t.Refill) + 1
	observed := fmt.Sprintf("%d of %d requests with forged fields are admitted", admitted, forgeries)
	switch {
	case admitted > regained:
		return failed(expected, observed, last)
	case regained >= forgeries: // so many would be admitted anyway
		return skipped("the limit regained requests during the test; run again")
	}
	return passed(observed)
}

// lastEnd returns when the last answer had arrived.
func lastEnd(answers []answer) time.Time {
	return slices.MaxFunc(answers, func(a, b answer) int { return a.ended.Compare(b.ended) }).ended
}

func (s *session) retryAfter(ctx context.Context) Result {
	r := s.get(s.plan.Quick.Path)
	refused, ok := s.exhaust(ctx, r, s.plan.Quick)
	if !ok {
		return skipped("no limit refused a request; the last answer is " + refused.summary())
	}
	t := refused.retryAfter()
	if t == 0 {
		return skipped("the refusal has no " + httplimit.RetryAfterField)
	}
	if err := s.wait(ctx, t, httplimit.RetryAfterField); err != nil {
		return skipped(fmt.Sprintf("%s is %s: %v", httplimit.RetryAfterField, t, err))
	}
	a, expected := s.send(ctx, r), fmt.Sprintf("admitted after %s", t)
	switch {
	case a.err != nil || a.refused() || a.status >= http.StatusInternalServerError:
		return failed(expected, a.summary(), a)
	case a.status >= http.StatusBadRequest && !a.allowed():
		return skipped("the answer after the wait shows no decision of a limit (got " + a.summary() + ")")
	}
	return passed(expected)
}
