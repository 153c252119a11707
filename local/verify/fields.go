package verify

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/weir-limits/weir/limiter/httplimit"
)

const problemType = "application/problem+json"

var (
	digits  = regexp.MustCompile(`^[0-9]+$`)
	policy  = regexp.MustCompile(`^"[a-z0-9_-]+";q=[0-9]+;w=[0-9]+$`)
	current = regexp.MustCompile(`^"[a-z0-9_-]+";r=[0-9]+;t=[0-9]+$`)
)

// limitFields are the fields of a decision that every answer has, with their form.
var limitFields = []struct {
	name string
	form *regexp.Regexp
}{
	{httplimit.LimitField, digits}, {httplimit.RemainingField, digits}, {httplimit.ResetField, digits},
	{httplimit.PolicyField, policy}, {httplimit.RateLimitField, current},
}

func wrongFields(h http.Header) (wrong []string) {
	for _, f := range limitFields {
		switch values := h.Values(f.name); {
		case len(values) == 0:
			wrong = append(wrong, "no "+f.name)
		case len(values) > 1:
			wrong = append(wrong, fmt.Sprintf("%d values of %s", len(values), f.name))
		case !f.form.MatchString(values[0]):
			wrong = append(wrong, fmt.Sprintf("%s %q", f.name, values[0]))
		}
	}
	return wrong
}

// wrongRefusal returns what is wrong with a refusal by a limit.
func wrongRefusal(a answer) []string {
	wrong := wrongFields(a.header)
	if a.status != http.StatusTooManyRequests {
		wrong = append(wrong, fmt.Sprintf("status %d", a.status))
	}
	if a.retryAfter() == 0 {
		wrong = append(wrong, fmt.Sprintf("%s %q", httplimit.RetryAfterField, a.header.Get(httplimit.RetryAfterField)))
	}
	if a.remaining() > 0 {
		wrong = append(wrong, fmt.Sprintf("%s %d", httplimit.RemainingField, a.remaining()))
	}
	if got := a.header.Get("Content-Type"); got != problemType {
		wrong = append(wrong, "Content-Type "+got)
	}
	if values := a.header[httplimit.DegradedField]; len(values) > 0 && values[0] == "" { // API Gateway maps a missing value to no field
		wrong = append(wrong, "an empty "+httplimit.DegradedField)
	}
	var p httplimit.Problem
	if err := json.Unmarshal(a.body, &p); err != nil {
		return append(wrong, "no JSON of the expected types: "+err.Error())
	}
	for _, text := range []struct{ key, value string }{{"type", p.Type}, {"title", p.Title}, {"error", p.Error}, {"message", p.Message},
		{"window", p.Window}} {
		if text.value == "" || strings.Contains(text.value, "$") {
			wrong = append(wrong, fmt.Sprintf("%s %q", text.key, text.value))
		}
	}
	if p.Status != http.StatusTooManyRequests || len(p.Violated) != 1 ||
		!strings.HasPrefix(a.header.Get(httplimit.PolicyField), fmt.Sprintf("%q;q=%d;", p.Violated[0], p.Limit)) {
		wrong = append(wrong, fmt.Sprintf("status %d, limit %d, violated-policies %q", p.Status, p.Limit, p.Violated))
	}
	if got := strconv.FormatInt(p.Wait, 10); got != a.header.Get(httplimit.RetryAfterField) {
		wrong = append(wrong, "retry_after "+got)
	}
	return wrong
}

func verdict(expected string, wrong []string, a answer) Result {
	if len(wrong) > 0 {
		return failed(expected, strings.Join(wrong, "; "), a)
	}
	return passed(a.header.Get(httplimit.PolicyField) + ", " + a.header.Get(httplimit.RateLimitField))
}
