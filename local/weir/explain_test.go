package main

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/operator"
)

func TestVerdict_rejected(t *testing.T) {
	e := operator.Explanation{Decision: operator.Decision{Status: http.StatusUnauthorized},
		Caller: operator.Caller{Rejected: "invalid credential: suspended"}}
	if got, want := verdict(command.Style{}, e), "401: the credential is rejected (invalid credential: suspended)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// No limit charges a request without a route.
func TestExplain_unrouted(t *testing.T) {
	var out bytes.Buffer
	e := operator.Explanation{Rules: []operator.Rule{{Path: "rules[0]", Endpoint: "*", Charges: 2}},
		Decision: operator.Decision{Status: http.StatusForbidden, Unrouted: true}}
	if err := printExplanation(&out, e); err != nil || !strings.Contains(out.String(), "would charge 2 limits\n") {
		t.Errorf("got %q, error %v, want no statement that limits are charged", out.String(), err)
	}
}
