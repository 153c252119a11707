package operator_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/local/operator"
)

// A subject can be written with or without escapes.
func TestInspect_subjects(t *testing.T) {
	d := newDesk(t, "memory")
	for text, want := range map[string]limiter.Subject{
		"user:alice":                            limiter.User("alice"),
		"user:al|ice":                           {}, // an error: | separates parts, and ice is not a part
		"user:al%7Cice":                         limiter.User("al|ice"),
		"ip:203.0.113.7":                        limiter.IP(netip.MustParsePrefix("203.0.113.7/32")),
		"ip:::ffff:203.0.113.7":                 limiter.IP(netip.MustParsePrefix("203.0.113.7/32")),
		"ip:2001:db8::7":                        limiter.IP(netip.MustParsePrefix("2001:db8::/64")),
		"ip:2001:db8::/64":                      limiter.IP(netip.MustParsePrefix("2001:db8::/64")),
		"ip:unknown":                            limiter.IP(netip.Prefix{}),
		"user:alice|endpoint:GET:/a/{id}":       limiter.User("alice").And(limiter.Endpoint("GET", "/a/{id}")),
		"user:alice|endpoint:GET:/a|ip:unknown": limiter.User("alice").And(limiter.Endpoint("GET", "/a|ip:unknown")),
		"claim:o%3Drg=a=b":                      limiter.Claim("o=rg", "a=b"),
		"apikey:k|claim:org=acme":               {}, // an error: the claim must be before the key
		"path:id=7":                             limiter.PathParameter("id", "7"),
		"path:id=":                              limiter.PathParameter("id", ""),
		"method:":                               {},
		"header:X-Tenant=a|user:alice":          limiter.Header("x-tenant", "a").And(limiter.User("alice")),
		"method:get":                            limiter.Method("GET"),
		"method:other":                          limiter.Method("other"), // all methods that no rule can name
		"claim:o=1|header:x=2|method:PUT|path:id=3|apikey:k": limiter.Claim("o", "1").And(limiter.Header("x",
			"2")).And(limiter.Method("PUT")).And(limiter.PathParameter("id", "3")).And(limiter.APIKey("k")),
		"global":               limiter.Global(),
		"endpoint:GET:/a/{id}": limiter.Endpoint("GET", "/a/{id}"),
		"custom:login=demo":    limiter.Custom("login", "demo"),
		"":                     {},
		"alice":                {},
		"user:":                {},
		"ip:alice":             {},
		"global:x":             {},
		"user:a|shadow":        {},
		// No request can have the following subjects, so they are errors ({}).
		"ip:127.0.0.0/8":            {},
		"ip:::ffff:127.0.0.1/128":   {},
		"user:alice|user:bob":       {},
		"user:alice|claim:org=acme": {},
		"claim:team=a|claim:org=b":  {},
		"endpoint:get:/a":           {},
		"claim:=x":                  {},
		"apikey:a|ip:127.0.0.1|user:c": limiter.APIKey("a").And(
			limiter.IP(netip.MustParsePrefix("127.0.0.1/32"))).And(limiter.User("c")),
		"USER:alice": {},
		limiter.User(strings.Repeat("x", 200)).String(): {}, // an error: the subject contains a hash in place of the name
		"user:" + strings.Repeat("x", 5000):             {},
	} {
		i, err := d.Usage(t.Context(), text)
		if want == (limiter.Subject{}) {
			if _, mistaken := errors.AsType[*operator.MistakeError](err); !mistaken || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: got %v, error %v, want a mistake", text, i.Subject, err)
			}
		} else if err != nil || i.Subject != want.String() {
			t.Errorf("%q: got %q, error %v, want %q", text, i.Subject, err, want)
		}
	}
}

// The subject of a network must have the prefix length that counts as one caller. The error names the
// network with that length.
func TestInspect_network(t *testing.T) {
	d := newDesk(t, "memory")
	d.IPv6Bits = 48
	if i := d.inspect("ip:2001:db8::/48"); i.Subject != "ip:2001:db8::/48" {
		t.Errorf("usage: got %+v, want that of ip:2001:db8::/48", i)
	}
	if _, err := d.Reset(t.Context(), "ip:2001:db8::/64"); err == nil || !strings.Contains(err.Error(), "want ip:2001:db8::/48:") {
		t.Error(err)
	}
}

// Usage accepts every subject that explain prints. The ID may contain any characters.
func FuzzInspect_subject(f *testing.F) {
	f.Add("alice", "acme")
	f.Add("al|ice:%41%", "=|")
	f.Add("\x00\xff", "~")
	d := newDesk(f, "memory")
	f.Fuzz(func(t *testing.T, user, org string) {
		for _, s := range []limiter.Subject{limiter.User(user), limiter.APIKey(user), limiter.Claim(org, user).And(limiter.User(org)),
			limiter.Custom(org, user), limiter.Endpoint("GET", "/"+user)} {
			i, err := d.Usage(t.Context(), s.String())
			if _, mistaken := errors.AsType[*operator.MistakeError](err); mistaken && (user == "" || org == "" || strings.Contains(s.String(),
				"~")) {
				continue
			}
			if err != nil || i.Subject != s.String() {
				t.Errorf("%q: got %q, error %v, want the same subject", s, i.Subject, err)
			}
		}
		_, _ = d.Usage(t.Context(), user)
	})
}
