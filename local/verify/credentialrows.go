package verify

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/weir-limits/weir/limiter/caller"
)

// credentialKind is a kind of credential that a deployment accepts. other is similar to a valid one, and invalid.
type credentialKind struct {
	id, name, field string
	need            Need
	value           func(*Deployment) string
	other           string
	invalid         func(valid string) string
}

var credentialKinds = []credentialKind{
	{"api-key", "API key", apiKeyField, NeedAPIKey, func(d *Deployment) string { return d.APIKey }, "a new key", func(string) string { return caller.NewAPIKey() }},
	{"token", "token", "Authorization", NeedToken, func(d *Deployment) string { return "Bearer " + d.Token }, "the token with another signature", changed},
}

func (u surface) acceptedRows() (rows []Row) {
	for _, k := range credentialKinds {
		rows = append(rows, Row{
			ID:    u.id + "-" + k.id,
			Claim: fmt.Sprintf("A request to %s with a valid %s is admitted, and one with %s gets 401.", u.name, k.name, k.other),
			Hand:  fmt.Sprintf("`curl -i -H '%s: …' %s/api/v1/search`, with each", strings.ToLower(k.field), u.variable),
			Needs: []Need{u.need, k.need},
			After: []string{"store-decides", u.id + "-allowed-fields", u.id + "-unauthorized"},
			Cost:  Cost{Requests: patientCost + 1},
			Check: func(ctx context.Context, s *session) Observation { return u.accepts(ctx, s, k) },
		})
	}
	return rows
}

// accepts tests a valid credential. A deployment that ignores the credential answers the changed one like an
// anonymous request.
func (u surface) accepts(ctx context.Context, s *session, k credentialKind) Observation {
	expected := "an admitted request, and 401 to " + k.other
	field := s.field(k.field)
	if field == "" {
		return skipped(noAPIKeys)
	}
	with := func(value string) request {
		return request{method: http.MethodGet, url: u.url(s.Deployment), path: s.plan.Path, header: http.Header{field: {value}}}
	}
	valid := s.patient(ctx, with(k.value(s.Deployment)))
	switch {
	case valid.refused():
		return skipped(UsedUp)
	case !valid.allowed():
		return failed(expected, valid.summary(), valid.String())
	}
	other := s.send(ctx, with(k.invalid(k.value(s.Deployment))))
	switch {
	case other.refused():
		return skipped(badCredentials)
	case other.status != http.StatusUnauthorized:
		return failed(expected, other.summary()+" to "+k.other, other.String())
	}
	return passed(expected, "both")
}

// changed returns a token with another character in its signature. The last character can have bits that no decoder
// reads, so changed replaces an earlier one.
func changed(credential string) string {
	at := max(0, len(credential)-8)
	other := "A"
	if credential[at:at+1] == other {
		other = "B"
	}
	return credential[:at] + other + credential[at+1:]
}
