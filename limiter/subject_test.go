package limiter_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter"
)

func TestSubject(t *testing.T) {
	for _, c := range []struct {
		subject limiter.Subject
		want    string
	}{
		{limiter.User("42"), "user:42"},
		{limiter.User("auth0|Jörg {1}"), "user:auth0%7CJ%C3%B6rg%20%7B1%7D"},
		{limiter.User("~x"), "user:%7Ex"},
		{limiter.User(strings.Repeat("a", 128)), "user:" + strings.Repeat("a", 128)},
		{limiter.User(strings.Repeat("a", 129)), "user:~wSywJKLlVRzKDgj86PHF4xRVXMP-9jKe6ZSj23UhZq4"},
		{limiter.APIKey("k1"), "apikey:k1"},
		{limiter.IP(netip.MustParsePrefix("203.0.113.7/32")), "ip:203.0.113.7"},
		{limiter.IP(netip.MustParsePrefix("2001:db8:1::/64")), "ip:2001:db8:1::/64"},
		{limiter.IP(netip.Prefix{}), "ip:unknown"},
		{limiter.Claim("org", "acme=1"), "claim:org=acme%3D1"},
		{limiter.Claim("org=acme", "1"), "claim:org%3Dacme=1"},
		{limiter.Endpoint("POST", "/api/v1/data"), "endpoint:POST:/api/v1/data"},
		{limiter.Endpoint("", "/a/{id}/*"), "endpoint::/a/%7Bid%7D/%2A"},
		{limiter.PathParameter("id", "a/b|c=1"), "path:id=a/b%7Cc%3D1"},
		{limiter.Method("GET"), "method:GET"},
		{limiter.Header("x-tenant", "a=b, c|d"), "header:x-tenant=a%3Db,%20c%7Cd"},
		{limiter.Global(), "global"},
		{limiter.User("1").And(limiter.Claim("org", "a|b")), "user:1|claim:org=a%7Cb"},
	} {
		if got := c.subject.String(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	long := strings.Repeat("a", 128)
	for _, s := range []limiter.Subject{
		limiter.Claim(long, long), limiter.Custom(long, long), limiter.Endpoint(long, long), limiter.User(long).And(limiter.Claim("org", "acme")),
	} {
		if got := s.String(); len(got) != 44 || got[0] != '~' {
			t.Errorf("a subject of more than %d bytes: got %q, want its hash", limiter.MaxSubject, got)
		}
	}
	if got := limiter.APIKey(long).And(limiter.Custom("", "")).String(); len(got) != limiter.MaxSubject {
		t.Errorf("got %d bytes, want %d and no hash", len(got), limiter.MaxSubject)
	}
	if got, want := limiter.User("42").Key("weir-dev"), "weir-dev/4/user:42"; got != want {
		t.Errorf("got the key %q, want %q", got, want)
	}
}

// Different identities never have the same subject. They can contain any bytes.
func FuzzSubject(f *testing.F) {
	f.Add("a", "b", "c", "d")
	f.Add("a|user:b", "", "a", "user:b")
	f.Add("a=b", "c", "a", "b=c")
	f.Add("%41", "", "A", "")
	f.Add(strings.Repeat("a", 64), "", strings.Repeat("a", 64)+"b", "")
	f.Add(strings.Repeat("a", 27), "", strings.Repeat("a", 27), "b")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		same := a == c && b == d
		for _, pair := range [][2]limiter.Subject{
			{limiter.User(a).And(limiter.User(b)), limiter.User(c).And(limiter.User(d))},
			{limiter.Claim(a, b), limiter.Claim(c, d)},
			{limiter.Endpoint(a, b), limiter.Endpoint(c, d)},
		} {
			if (pair[0] == pair[1]) != same {
				t.Errorf("(%q, %q) and (%q, %q): got %s and %s, want equal subjects: %t", a, b, c, d, pair[0], pair[1], same)
			}
			if (pair[0].String() == pair[1].String()) != same {
				t.Errorf("(%q, %q) and (%q, %q): got the texts %s and %s, want equal texts: %t", a, b, c, d, pair[0], pair[1], same)
			}
			if key := pair[0].Key("n"); len(key) > len("n/1/")+limiter.MaxSubject || strings.ContainsAny(key, "{} \x00\n") {
				t.Errorf("got key %q, want a shorter key, or one without braces, spaces and control characters", key)
			}
		}
	})
}

func TestID(t *testing.T) {
	if limiter.NewID("ab", "c") == limiter.NewID("a", "bc") || limiter.NewID("a") == limiter.NewID("a", "") {
		t.Error("different parts: got the same ID, want two IDs")
	}
	if got := limiter.NewID("search").String(); len(got) != 8 || got != limiter.NewID("search").String() {
		t.Errorf("got ID %q, want eight characters, the same in each call", got)
	}
}
