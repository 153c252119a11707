package limiter_test

import (
	"errors"
	"math"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// NewLimit rejects a limit that a store could not hold.
func TestNewLimit_mistakes(t *testing.T) {
	good := limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 10, Window: time.Minute}, ID: 1<<40 - 1, Version: limiter.MaxVersion}
	limit(t, good)
	for _, c := range []struct {
		field  string
		change func(*limiter.Limit)
	}{
		{"name", func(l *limiter.Limit) { l.Name = "A" }},
		{"window", func(l *limiter.Limit) { l.Rate.Window = time.Second - 1 }},
		{"requests", func(l *limiter.Limit) { l.Rate.Requests = 0 }},
		{"id", func(l *limiter.Limit) { l.ID = 1 << 40 }},
		{"version", func(l *limiter.Limit) { l.Version = limiter.MaxVersion + 1 }},
		{"version", func(l *limiter.Limit) { l.Version = -1 }},
	} {
		l := good
		c.change(&l)
		_, err := limiter.NewLimit(l)
		if mistake, ok := errors.AsType[*algo.FieldError](err); !ok || mistake.Field != c.field {
			t.Errorf("%s: got %v, want an error of this field", c.field, err)
		}
	}
}

// IDs use all of 40 bits. ParseID returns the ID of a text that String returned.
func TestID_bits(t *testing.T) {
	var all limiter.ID
	for _, part := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		id := limiter.NewID(part, "x")
		all |= id
		if back, err := limiter.ParseID(id.String()); err != nil || back != id || len(id.String()) != 8 {
			t.Errorf("ParseID of %s: got %s, %v, want the same ID", id, back, err)
		}
	}
	if all>>38 != 3 || all >= 1<<40 {
		t.Errorf("got the bits %x, want all 40", uint64(all))
	}
	for _, text := range []string{"", "0123456", "012345678", "zzzzzzzz", "0123456*"} {
		if id, err := limiter.ParseID(text); err == nil {
			t.Errorf("%q: parsed as %s, want an error", text, id)
		}
	}
}

// If new rules lower a limit, a cost above its capacity is never allowed. An instant out of range is an
// error.
func TestLimiter_Take_extremes(t *testing.T) {
	l := storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{}))
	for _, algorithm := range []algo.Algorithm{algo.TokenBucket, algo.LeakyBucket, algo.SlidingWindow, algo.FixedWindow, algo.SlidingLog} {
		caller := limiter.User(string(algorithm))
		made := func(version, requests int64) *limiter.Limit {
			return limit(t, limiter.Limit{Name: "a", Version: version, Rate: algo.Rate{Algorithm: algorithm, Requests: requests,
				Window: time.Minute}})
		}
		take(t, l, limiter.Charge{Subject: caller, Limit: made(1, 300), Cost: 300})
		d := takeAt(t, l, noon.Add(time.Minute), limiter.Charge{Subject: caller, Limit: made(2, 5), Cost: math.MaxInt64})
		if d.Allowed || d.RetryAfter != 0 {
			t.Errorf("%s: got %+v, want a refusal with a wait of 0", algorithm, d)
		}
	}
	for _, now := range []time.Time{{}, time.Unix(-1, 0), time.Date(2263, 1, 1, 0, 0, 0, 0, time.UTC)} {
		_, err := l.Take(ctx, now, []limiter.Charge{{Subject: user, Limit: perMinute(t, "a", 1), Cost: 1}})
		if !errors.Is(err, limiter.ErrInvalidCharge) {
			t.Errorf("at %s: got %v, want %v", now, err, limiter.ErrInvalidCharge)
		}
	}
}

// After a refund, the denial cache of the process refuses no request that the limit would admit.
func TestReceipt_Refund(t *testing.T) {
	for _, l := range []*limiter.Limiter{storetest.Must(limiter.New(newRemote(), limiter.Options{})),
		storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{}))} {
		c := []limiter.Charge{{Subject: user, Limit: perMinute(t, "a", 1), Cost: 1}}
		for range 3 {
			d, receipt, err := l.TakeRefundable(ctx, noon, c)
			if err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
			if done := receipt.Refund(ctx, noon); done != (limiter.Refunds{Given: 1}) {
				t.Errorf("got %+v, want one refund", done)
			}
			if done := receipt.Refund(ctx, noon); done != (limiter.Refunds{}) {
				t.Errorf("second refund: got %+v, want none", done)
			}
		}
		take(t, l, c...)
		d, receipt, err := l.TakeRefundable(ctx, noon, c)
		if err != nil || d.Allowed || receipt != nil {
			t.Fatal(d, receipt, err)
		}
		if done := receipt.Refund(ctx, noon); done != (limiter.Refunds{}) {
			t.Errorf("refund of a refusal: got %+v, want none", done)
		}
		if take(t, l, c...).Allowed {
			t.Error("got quota from the refund of a refused request, want none")
		}
	}
}

// Peek returns what Take would decide, and charges nothing.
func TestLimiter_Peek(t *testing.T) {
	for _, l := range []*limiter.Limiter{storetest.Must(limiter.New(newRemote(), limiter.Options{})),
		storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{}))} {
		c := limiter.Charge{Subject: user, Limit: perMinute(t, "a", 10), Cost: 4}
		for range 3 {
			if d := mustPeek(t, l, noon, c); !d.Allowed || d.Remaining != 10 {
				t.Fatalf("without usage: got %+v, want an admission and 10 remaining", d)
			}
		}
		take(t, l, c)
		take(t, l, c)
		got, want := mustPeek(t, l, noon, c), takeAt(t, l, noon, c)
		want.FromCache, want.StoreCalls, want.StoreTime = got.FromCache, got.StoreCalls, got.StoreTime
		if !reflect.DeepEqual(got, want) || got.Allowed {
			t.Errorf("got %+v, want %+v", got, want)
		}
		c.Cost = 2
		if d := mustPeek(t, l, noon, c); !d.Allowed || d.Remaining != 2 {
			t.Errorf("a cost of 2 with 2 remaining: got %+v, want an admission and 2 remaining", d)
		}
	}
}

// A forced charge past the limit makes a debt. The limit refuses requests until the debt has expired.
func TestCharge_Force(t *testing.T) {
	for _, l := range []*limiter.Limiter{storetest.Must(limiter.New(newRemote(), limiter.Options{})),
		storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{}))} {
		a := perMinute(t, "a", 10)
		for i, want := range []int64{6, 2, 0, 0} {
			if d := take(t, l, limiter.Charge{Subject: user, Limit: a, Cost: 4, Force: true}); !d.Allowed || d.Remaining != want {
				t.Fatalf("forced charge %d: got %+v, want an admission and %d remaining", i, d, want)
			}
		}
		if d := take(t, l, limiter.Charge{Subject: user, Limit: a, Cost: 1}); d.Allowed {
			t.Fatalf("in debt: got %+v, want a refusal", d)
		}
		// If another limit of the request refuses, the forced charge is not made.
		b := perMinute(t, "b", 1)
		both := []limiter.Charge{{Subject: other, Limit: a, Cost: 1, Force: true}, {Subject: other, Limit: b, Cost: 1}}
		take(t, l, both...)
		if d := take(t, l, both...); d.Allowed || d.Limit != b {
			t.Fatalf("the other limit is used up: got %+v, want a refusal by limit b", d)
		}
		if d := mustPeek(t, l, noon, limiter.Charge{Subject: other, Limit: a, Cost: 1}); d.Remaining != 9 {
			t.Errorf("after the refused request: got %+v, want 9 remaining", d)
		}
	}
}

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
