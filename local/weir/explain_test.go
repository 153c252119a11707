package main

import (
	"net/http"
	"testing"

	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/operator"
)

func TestVerdict_rejected(t *testing.T) {
	e := operator.Explanation{Decision: operator.Decision{Status: http.StatusUnauthorized}, Caller: operator.Caller{Rejected: "invalid credential: suspended"}}
	if got, want := verdict(command.Style{}, e), "401: the credential is rejected (invalid credential: suspended)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
