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
	policy  = regexp.MustCompile(`^"([a-z0-9_-]+)";q=([0-9]+);w=([0-9]+)$`)
	current = regexp.MustCompile(`^"([a-z0-9_-]+)";r=([0-9]+);t=([0-9]+)$`)
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

func wrongRefusal(h http.Header) []string {
	wrong := wrongFields(h)
	if n, err := strconv.Atoi(h.Get(httplimit.RetryAfterField)); err != nil || n < 1 {
		wrong = append(wrong, fmt.Sprintf("%s %q", httplimit.RetryAfterField, h.Get(httplimit.RetryAfterField)))
	}
	if remaining := h.Get(httplimit.RemainingField); digits.MatchString(remaining) && remaining != "0" {
		wrong = append(wrong, fmt.Sprintf("%s %q", httplimit.RemainingField, remaining))
	}
	return wrong
}

// wrongBody returns what is wrong with the body of a refusal by a limit. name and requests are those of
// the limit.
func wrongBody(body []byte, name string, requests int) (wrong []string) {
	var p struct {
		Type, Title, Error, Message, Window string
		Status, Limit                       int
		Violated                            []string `json:"violated-policies"`
	}
	if err := json.Unmarshal(body, &p); err != nil {
		return []string{"no JSON of the expected types: " + err.Error()}
	}
	for _, text := range []struct{ key, value string }{{"type", p.Type}, {"title", p.Title}, {"error", p.Error}, {"message", p.Message}, {"window", p.Window}} {
		if text.value == "" || strings.Contains(text.value, "$") {
			wrong = append(wrong, fmt.Sprintf("%s %q", text.key, text.value))
		}
	}
	if p.Status != http.StatusTooManyRequests {
		wrong = append(wrong, fmt.Sprintf("status %d", p.Status))
	}
	if p.Limit != requests {
		wrong = append(wrong, fmt.Sprintf("limit %d", p.Limit))
	}
	if len(p.Violated) != 1 || p.Violated[0] != name {
		wrong = append(wrong, fmt.Sprintf("violated-policies %q", p.Violated))
	}
	return wrong
}

// limitOf returns the name and the requests of the limit in the field RateLimit-Policy.
func limitOf(h http.Header) (name string, requests int) {
	if m := policy.FindStringSubmatch(h.Get(httplimit.PolicyField)); m != nil {
		requests, _ = strconv.Atoi(m[2])
		return m[1], requests
	}
	return "", 0
}

func verdict(expected, observed string, wrong []string, a answer) Observation {
	if len(wrong) > 0 {
		return failed(expected, strings.Join(wrong, "; "), a.String())
	}
	return passed(expected, observed)
}

func described(h http.Header) string {
	return h.Get(httplimit.PolicyField) + ", " + h.Get(httplimit.RateLimitField)
}
