package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/telemetry"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
)

// weir hash uses the key of the checkout, and creates it if it is missing. For an IPv6 address it
// hashes the address's network, as limits do.
func TestHash(t *testing.T) {
	c := checkouttest.Scratch(t)
	t.Setenv("RECORDS_TABLE", "")
	first := ok(t, "hash", "user:alice")
	key, err := os.ReadFile(c.SubjectKeyFile())
	if err != nil {
		t.Fatal(err)
	}
	of := func(s limiter.Subject) string { return telemetry.NewSubjectHash("dev", key)(s) + "\n" }
	if first != of(limiter.User("alice")) {
		t.Errorf("got %q, want %q", first, of(limiter.User("alice")))
	}
	for text, want := range map[string]limiter.Subject{
		"apikey:acme": limiter.APIKey("acme"), "ip:203.0.113.7": limiter.IP(caller.Prefix(caller.ParseAddress("203.0.113.7"), 64)),
		"ip:2001:db8::1": limiter.IP(caller.Prefix(caller.ParseAddress("2001:db8::1"), 64)),
	} {
		if got := ok(t, "hash", text); got != of(want) {
			t.Errorf("%s: got %q, want %q", text, got, of(want))
		}
	}
	var made madeHash
	if err := json.Unmarshal([]byte(ok(t, "hash", "user:alice", "--namespace", "prod", "--json")), &made); err != nil || made.Subject != "user:alice" || made.Namespace != "prod" || made.Hash+"\n" == first {
		t.Errorf("created key: got %+v, error %v, want another hash for the namespace prod", made, err)
	}
	for _, args := range [][]string{{"hash", "alice"}, {"hash", "user:alice", "--ipv6-bits", "0"}, {"hash", "user:alice", "--table", "Weir-prod-Records"}} {
		if code, _, errs := weir(t, args...); code != 2 {
			t.Errorf("%v: got exit %d, stderr %q, want exit 2", args, code, errs)
		}
	}
}

// The first weir hash for a deployment creates the key in its records table.
func TestHash_table(t *testing.T) {
	recordsTable(t)
	code, first, errs := weir(t, "hash", "user:alice", "--namespace", "dev")
	if code != 0 || !strings.Contains(errs, "created the missing key") {
		t.Errorf("first hash: got exit %d, stderr %q, want exit 0 and a note about the new key", code, errs)
	}
	if second := ok(t, "hash", "user:alice", "--namespace", "dev"); second != first {
		t.Errorf("got %q, then %q, want the same hash", first, second)
	}
}
