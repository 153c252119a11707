package operator_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/go-jose/go-jose/v4"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/clients"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/operator"
)

const document = `{"version":7,"rules":[
  {"endpoint":"/search","method":"GET","limits":{
    "free":{"requests":100,"window":"1m","algorithm":"token_bucket","burst":4},
    "paid":{"requests":1000,"window":"1m"}}},
  {"endpoint":"/search","method":"POST","cost":2,"limits":{"*":{"requests":10,"window":"1m"}}},
  {"endpoint":"/busy","limits":{"*":[
    {"name":"shards","requests":10,"window":"1m","shards":2},
    {"name":"leased","requests":10,"window":"1m","lease":2},
    {"name":"synced","requests":10,"window":"1m","sync_ms":100}]}},
  {"endpoint":"/queue","limits":{"*":{"requests":60,"window":"1m","algorithm":"leaky_bucket"}}},
  {"endpoint":"/tried","mode":"shadow","limits":{"*":{"requests":1,"window":"1m"}}},
  {"endpoint":"/strict","on_error":"deny","limits":{"*":{"requests":1,"window":"1m"}}},
  {"endpoint":"*","limits":{"global":[
    {"name":"address","requests":6,"window":"1m","per":["ip"]},
    {"name":"org","requests":5,"window":"1m","per":["user","claim:org"]}]}}],
 "overrides":[{"user":"alice","limits":{"search":{"requests":8,"window":"1m","algorithm":"sliding_window"}}}]}`

var (
	stores = []string{"memory", "dynamodb", "redis"}
	noon   = time.Date(2100, 3, 4, 12, 0, 0, 0, time.UTC)
	local  = netip.MustParseAddr("127.0.0.1")
)

// desk has an operator and the environment that decides requests.
type desk struct {
	*operator.Operator
	t     testing.TB
	kind  string
	store limiter.Store
	now   time.Time
	rules *rules.Rules
}

func newDesk(t testing.TB, kind string) *desk {
	t.Helper()
	store := open(t, kind)
	d := &desk{t: t, kind: kind, store: store, now: noon, rules: parse(t, document)}
	d.Operator = &operator.Operator{
		Address:  local,
		Limiters: []*limiter.Limiter{storetest.Must(limiter.New(store, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))},
		Rules:    func(context.Context, time.Time) *rules.Rules { return d.rules }, Clock: func() time.Time { return d.now },
	}
	return d
}

func parse(t testing.TB, document string) *rules.Rules {
	t.Helper()
	r, err := rules.Parse([]byte(document), rules.Options{Items: dynamostore.Items{}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// open opens a store with a separate namespace for each call.
func open(t testing.TB, kind string) limiter.Store {
	t.Helper()
	c := boot.Config{Store: "memory:", Namespace: "test-" + rand.Text(), Local: true, AWS: clients.AWS}
	switch kind {
	case "dynamodb":
		c.Store, c.DynamoDBEndpoint = "dynamodb://weir-operator", storetest.Server(t, "dynamodb", "DYNAMODB_ENDPOINT")
		client, err := c.DynamoDBClient(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.CreateTable(t.Context(), dynamostore.TableInput(c.Table()))
		if _, exists := errors.AsType[*types.ResourceInUseException](err); err != nil && !exists {
			t.Fatal(err)
		}
	case "redis":
		c.Store = storetest.Server(t, "redis", "REDIS_URL")
	}
	store, closeStore, err := c.OpenStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closeStore() })
	return storetest.Waiting(store)
}

// send decides a request as an environment does.
func (d *desk) send(q operator.Question) limiter.Decision {
	d.t.Helper()
	caller := caller.Caller{User: q.User, Tier: q.Tier, APIKey: q.APIKeyID, Claims: q.Claims, IP: netip.PrefixFrom(local, 32)}
	decision, err := d.Limiters[0].Take(d.t.Context(), d.now, d.rules.Charges(nil, q.Method, rules.EncodedPath(q.Path), caller))
	if err != nil {
		d.t.Fatal(err)
	}
	if decision.Reason != limiter.ReasonNone {
		d.t.Fatalf("got %+v, want a decision of the store", decision)
	}
	return decision
}

func (d *desk) explain(q operator.Question) operator.Explanation {
	d.t.Helper()
	e, err := d.Explain(d.t.Context(), q)
	if err != nil {
		d.t.Fatal(err)
	}
	if e.Decision.Degraded != "" {
		d.t.Fatalf("got %+v, want an explanation by the store", e.Decision)
	}
	return e
}

func (d *desk) inspect(subject string) operator.Usage {
	d.t.Helper()
	i, err := d.Usage(d.t.Context(), subject)
	if err != nil {
		d.t.Fatal(err)
	}
	return i
}

func (d *desk) reset(subject string) operator.Usage {
	d.t.Helper()
	f, err := d.Reset(d.t.Context(), subject)
	if err != nil {
		d.t.Fatal(err)
	}
	return f
}

// eachStore runs a test on every store.
func eachStore(t *testing.T, test func(d *desk)) {
	for _, kind := range stores {
		t.Run(kind, func(t *testing.T) { test(newDesk(t, kind)) })
	}
}

// An explanation equals the decision on the next request: both have the same limit and exactly the same
// wait. Repeated explanations charge nothing.
func TestExplain_equalsDecision(t *testing.T) {
	questions := []operator.Question{
		{Method: "GET", Path: "/search"},
		{Method: "GET", Path: "/search", User: "alice"},
		{Method: "HEAD", Path: "//search", User: "bob", Tier: "paid"},
		{Method: "POST", Path: "/search", User: "bob", Claims: map[string][]string{"org": {"acme"}}},
		{Method: "GET", Path: "/strict", APIKeyID: "key"},
		{Method: "GET", Path: "/tried"},
		{Method: "GET", Path: "/queue", User: "carol"},
		{Method: "OPTIONS", Path: "/search"},
	}
	eachStore(t, func(d *desk) {
		refusals := map[string]bool{}
		for range 8 {
			for _, q := range questions {
				first, e := d.explain(q), d.explain(q)
				if !reflect.DeepEqual(first, e) {
					d.t.Fatalf("%+v: got two explanations, want the same:\n%+v\n%+v", q, first, e)
				}
				got := d.send(q)
				if e.Decision.Allowed != got.Allowed || e.Decision.RetryAfterSeconds != got.RetryAfter.Seconds() ||
					e.Decision.DelaySeconds != got.Delay.Seconds() {
					d.t.Fatalf("%+v: got explanation %+v, want decision %+v", q, e.Decision, got)
				}
				if shadowed := got.Shadowed != nil; (e.Decision.Shadowed != "") != shadowed {
					d.t.Fatalf("%+v: got explanation %+v, want shadowed %t", q, e.Decision, shadowed)
				}
				if !got.Allowed {
					refusals[e.Decision.Limit] = true
				}
				if header := time.Duration(e.Decision.RetryAfter) * time.Second; !got.Allowed && (header < got.RetryAfter || header > got.RetryAfter+
					time.Second) {
					d.t.Fatalf("%+v: got Retry-After %s, want the wait of %s or up to a second more", q, header, got.RetryAfter)
				}
				for _, l := range e.Limits {
					if l.Path == e.Decision.Limit && !got.Allowed && (l.Name != got.Limit.Name || l.State.Passes ||
						l.State.RetryAfterSeconds != got.RetryAfter.Seconds()) {
						d.t.Fatalf("%+v: got usage %+v, want the wait of the refusal, %s", q, l, got.RetryAfter)
					}
				}
				d.now = d.now.Add(100 * time.Millisecond)
			}
		}
		if len(refusals) < 2 {
			d.t.Errorf("limits that refused: got %v, want at least two", refusals)
		}
	})
}

func TestExplain(t *testing.T) {
	eachStore(t, func(d *desk) {
		d.send(operator.Question{Method: "GET", Path: "/search", User: "alice"})
		e := d.explain(operator.Question{Method: "GET", Path: "/search", User: "alice", Claims: map[string][]string{"org": {"acme"}}})
		if e.Path != "/search" || e.Caller.Subject != "user:alice" || e.Caller.Tier != "free" || e.Caller.IP != "127.0.0.1/32" ||
			e.Version != 7 || e.Others != 4 {
			t.Errorf("explanation: got %+v, want the path, the caller and the rules of the request", e)
		}
		want := []operator.Matched{
			{Path: "rules[0]", Endpoint: "/search", Method: "GET", Charges: 1},
			{Path: "rules[1]", Endpoint: "/search", Method: "POST", Reasons: []string{"applies to POST"}},
			{Path: "rules[6]", Endpoint: "*", Charges: 2},
		}
		if !reflect.DeepEqual(e.Rules, want) {
			d.t.Errorf("rules: got %+v, want %+v", e.Rules, want)
		}
		search := e.Limits[0]
		state := operator.State{Charged: true, Capacity: 8, Remaining: 7, Passes: true, FullAt: search.State.FullAt}
		if search.Name != "search" || search.Path != "rules[0].limits.free" || !search.Overridden || search.Requests != 8 ||
			search.Mode != "enforce" || search.OnError != "local" || search.State != state {
			d.t.Errorf("limit: got %+v with state %+v, want the override of alice", search, search.State)
		}
	})
}

// Usage returns exactly the limits of the subject in every tier, including limits that are not counted
// in the store.
func TestInspect(t *testing.T) {
	eachStore(t, func(d *desk) {
		for _, path := range []string{"/search", "/tried", "/busy"} {
			d.send(operator.Question{Method: "GET", Path: path, User: "alice"})
		}
		i := d.inspect("user:alice")
		charged := map[string]int64{}
		for _, l := range i.Limits {
			if l.State.Charged {
				charged[l.Path] = l.State.Remaining
			}
		}
		want := map[string]int64{"rules[0].limits.free": 7, "rules[4].limits.*": 0, "rules[2].limits.*[0]": 9, "rules[2].limits.*[1]": 9,
			"rules[2].limits.*[2]": 9}
		if d.kind != "memory" { // a remote store lacks the charges of the limit with sync_ms, which the environment reports later
			delete(want, "rules[2].limits.*[2]")
		}
		if !reflect.DeepEqual(charged, want) || len(i.Limits) != 9 {
			d.t.Errorf("charged: got %v, want %v; %d limits", charged, want, len(i.Limits))
		}
		if i := d.inspect("user:bob"); len(i.Limits) != 9 || i.Limits[0].State.Charged {
			d.t.Errorf("bob: got %+v, want 9 limits without usage", i)
		}
		if i := d.inspect("global"); len(i.Limits) != 0 {
			d.t.Errorf("global: got %+v, want no limits", i)
		}
	})
}

// Usage shows the limits of the default tier of an address, and of the tier in the record of an API key. It shows a limit of
// another tier only if that has usage.
func TestInspect_tiers(t *testing.T) {
	d := newDesk(t, "memory")
	d.rules = parse(t, `{"rules":[{"endpoint":"/a","limits":{"free":{"requests":9,"window":"1m"},"paid":{"requests":99,"window":"1m"},`+
		`"*":{"requests":5,"window":"1m"}}}]}`)
	d.Record = func(_ context.Context, id string) (caller.Record, bool, error) {
		return caller.Record{ID: id, Tier: "paid"}, id != "nobody", nil
	}
	d.send(operator.Question{Method: "GET", Path: "/a", APIKeyID: "upgraded"})
	for subject, want := range map[string]string{
		"ip:203.0.113.7":  "free",
		"apikey:acme":     "paid",
		"apikey:upgraded": "free paid",
		"apikey:nobody":   "* free paid",
		"user:alice":      "* free paid",
	} {
		var got []string
		for _, l := range d.inspect(subject).Limits {
			got = append(got, l.Tier)
			if other := subject == "apikey:upgraded" && l.Tier == "free"; l.OtherTier != other || l.MetricsRule != "/a" {
				t.Errorf("%s: got other tier %t and the rule %s in metrics, want %t and /a", subject, l.OtherTier, l.MetricsRule, other)
			}
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: got the limits of %s, want %s", subject, text, want)
		}
	}
}

// Limits that keep one count across tiers appear once, with the numbers of the caller's tier, or of every tier if it is not
// known. A reset deletes the count.
func TestInspect_acrossTiers(t *testing.T) {
	const month = `"name":"month","period":"month","per":["client"],"across_tiers":true,"notify":[1]}`
	eachStore(t, func(d *desk) {
		d.rules = parse(d.t, `{"rules":[{"endpoint":"*","limits":{"free":{"requests":1000,`+month+`,"paid":{"requests":5000,`+month+
			`,"*":{"requests":100,`+month+`}}]}`)
		tiers := map[string]string{"acme": "free", "new": "paid"}
		d.Record = func(_ context.Context, id string) (caller.Record, bool, error) {
			return caller.Record{ID: id, Tier: tiers[id]}, true, nil
		}
		want := func(subject, tiers string, capacity, remaining int64) {
			d.t.Helper()
			i := d.inspect(subject)
			var got []string
			for _, l := range i.Limits {
				got = append(got, l.Tier)
				if l.MetricsRule != "month" || l.OtherTier || l.State.Capacity != capacity || l.State.Remaining != remaining {
					d.t.Errorf("%s: got %+v, want the limit month with %d of %d", subject, l, remaining, capacity)
				}
			}
			if text := strings.Join(got, " "); text != tiers {
				d.t.Errorf("%s: got the limits of %q, want those of %q", subject, text, tiers)
			}
		}
		want("apikey:new", "paid", 5000, 5000)
		for range 20 {
			d.send(operator.Question{Method: "GET", Path: "/", APIKeyID: "acme", Tier: "free"})
		}
		want("apikey:acme", "free", 1000, 980)
		tiers["acme"] = "paid"
		want("apikey:acme", "paid", 5000, 4980)
		d.send(operator.Question{Method: "GET", Path: "/", User: "alice", Tier: "paid"})
		for _, l := range d.inspect("user:alice").Limits {
			if l.State.Capacity-l.State.Remaining != 1 {
				d.t.Errorf("user:alice: got %+v, want one used in every tier", l)
			}
		}
		d.send(operator.Question{Method: "GET", Path: "/"})
		want("ip:127.0.0.1", "free", 1000, 999)
		if f := d.reset("apikey:acme"); len(f.Limits) != 1 || f.Limits[0].Tier != "paid" || f.Limits[0].State.Remaining != 4980 {
			d.t.Errorf("reset: got %+v, want the limit of the tier paid with 4980 left", f.Limits)
		}
		want("apikey:acme", "paid", 5000, 5000)
		if got := d.inspect("user:bob").Limits; len(got) != 3 {
			d.t.Errorf("user without usage: got %+v, want the limits of every tier", got)
		}
	})
}

// A reset also removes state that the present rules do not describe.
func TestReset_unknown(t *testing.T) {
	eachStore(t, func(d *desk) {
		d.send(operator.Question{Method: "GET", Path: "/search", User: "bob"})
		d.send(operator.Question{Method: "GET", Path: "/tried", User: "bob"})
		before := d.rules
		d.rules = parse(t, `{"version":8,"rules":[{"endpoint":"/else","limits":{"*":{"requests":1,"window":"1m"}}}]}`)
		if f := d.reset("user:bob"); len(f.Limits) != 0 {
			d.t.Errorf("reset: got %+v, want no limit of the rules", f)
		}
		d.rules = before
		for _, l := range d.inspect("user:bob").Limits {
			if l.State.Charged {
				d.t.Errorf("after the reset: got %+v, want no usage", l)
			}
		}
	})
}

// After a reset, this environment admits a refused caller at once, and another environment admits it
// within a second. Other callers keep their usage.
func TestReset(t *testing.T) {
	eachStore(t, func(d *desk) {
		other := storetest.Must(limiter.New(d.store, limiter.Options{}))
		bob, alice := operator.Question{Method: "GET", Path: "/search", User: "bob"}, operator.Question{Method: "GET", Path: "/search",
			User: "alice"}
		for range 4 {
			d.send(bob)
		}
		d.send(alice)
		charges := d.rules.Charges(nil, bob.Method, rules.EncodedPath(bob.Path), caller.Caller{User: "bob"})[:1]
		elsewhere := func() bool {
			decision, err := other.Take(t.Context(), d.now, charges)
			if err != nil {
				t.Fatal(err)
			}
			return decision.Allowed
		}
		if d.send(bob).Allowed || elsewhere() {
			d.t.Fatal("before the reset: bob got an admission, want a refusal in both environments")
		}
		f := d.reset("user:bob")
		if len(f.Limits) != 1 || f.Limits[0].Name != "search" || f.Limits[0].State.Remaining != 0 {
			d.t.Errorf("reset: got %+v, want the limit search of user:bob with 0 remaining", f)
		}
		if !d.send(bob).Allowed {
			d.t.Error("after the reset: bob got a refusal, want an admission")
		}
		if remembers := d.kind != "memory"; elsewhere() == remembers {
			d.t.Errorf("after the reset, another environment: bob got an admission: %t, want %t", remembers, !remembers)
		}
		if !strings.Contains(strings.Join(f.Notes, " "), "up to a second") {
			d.t.Errorf("notes: got %q, want a note about other environments", f.Notes)
		}
		d.now = d.now.Add(time.Second + 1)
		if !elsewhere() {
			d.t.Error("a second after the reset: bob got a refusal by another environment, want an admission")
		}
		if left := d.inspect("user:alice").Limits[0].State.Remaining; left != 7 {
			d.t.Errorf("alice: got %d left, want 7", left)
		}
	})
}

// After a reset of a user, a limit of the caller's address can still refuse the caller. A note in the
// answer states this.
func TestReset_others(t *testing.T) {
	d := newDesk(t, "memory")
	q := operator.Question{Method: "GET", Path: "/search", User: "alice"}
	for d.send(q).Allowed {
	}
	f := d.reset("user:alice")
	e := d.explain(q)
	if d.send(q).Allowed || e.Decision.Limit != "rules[6].limits.global[0]" || len(f.Notes) != 2 || !strings.HasPrefix(f.Notes[0],
		"other subjects of the same caller") {
		t.Errorf("after the reset: got decision %+v and notes %q, want a refusal by the address, and the note first", e.Decision, f.Notes)
	}
}

// keys is a source of signing keys that always fails with fault.
type keys struct{ fault error }

func (k keys) Key(context.Context, time.Time, string, string) (*jose.JSONWebKey, error) {
	return nil, k.fault
}

// A token that cannot be verified gets 503. An invalid token gets 401.
func TestExplain_rejected(t *testing.T) {
	d := newDesk(t, "memory")
	for fault, want := range map[error]int{caller.ErrUnverified: 503, caller.ErrInvalidCredential: 401} {
		tokens, err := caller.NewVerifier(caller.TokenOptions{Keys: keys{fault}, Issuer: "i", Audience: []string{"a"},
			Algorithms: []string{"RS256"}})
		if err != nil {
			t.Fatal(err)
		}
		d.Identifier = caller.New(caller.Options{Tokens: tokens})
		if e := d.explain(operator.Question{Method: "GET", Path: "/queue",
			Token: "eyJhbGciOiJSUzI1NiIsImtpZCI6ImsifQ.e30.AA"}); e.Decision.Allowed || e.Decision.Status != want || e.Caller.Rejected == "" {
			t.Errorf("%v: got %+v, want status %d and a reason", fault, e, want)
		}
	}
}

// A reset clears the store and the denial caches of all limiters in a process.
func TestReset_limiters(t *testing.T) {
	d := newDesk(t, "redis")
	for range 2 {
		d.Limiters = append(d.Limiters, storetest.Must(limiter.New(d.store, limiter.Options{})))
	}
	q := operator.Question{Method: "POST", Path: "/search", User: "bob"}
	charges := d.rules.Charges(nil, q.Method, rules.EncodedPath(q.Path), caller.Caller{User: "bob"})[:1]
	take := func(l *limiter.Limiter) limiter.Decision {
		decision, err := l.Take(t.Context(), d.now, charges)
		if err != nil {
			t.Fatal(err)
		}
		return decision
	}
	for i, l := range d.Limiters { // each limiter refuses bob, so each denial cache has an entry
		for take(l).Allowed {
		}
		if again := take(l); !again.FromCache {
			t.Fatalf("limiter %d: got a decision of the store, want a refusal from its denial cache", i)
		}
	}
	d.reset("user:bob")
	for i, l := range d.Limiters {
		if !take(l).Allowed {
			t.Errorf("limiter %d: got a refusal after the reset, want an admission", i)
		}
	}
}

// Only of limits with shards, usage notes that it does not show the shards of earlier rules.
func TestUsage_shards(t *testing.T) {
	d := newDesk(t, "memory")
	for subject, want := range map[string]bool{"user:dave": true, "claim:org=acme|user:dave": false} {
		if i := d.inspect(subject); len(i.Limits) == 0 || i.Notes == nil || strings.Contains(strings.Join(i.Notes, " "),
			"state in shards") != want {
			t.Errorf("%s: got %d limits and the notes %q, want some, and a note about shards: %t", subject, len(i.Limits), i.Notes, want)
		}
	}
}

// An address counts as its network. If the address is unknown, a note states this.
func TestExplain_address(t *testing.T) {
	d := newDesk(t, "memory")
	if e := d.explain(operator.Question{Method: "GET", Path: "/busy", User: "alice", IP: "2001:db8::1"}); e.Caller.IP != "2001:db8::/64" {
		t.Errorf("explanation: got %+v, want the network of the address", e)
	}
	d.Address = netip.Addr{}
	if e := d.explain(operator.Question{Method: "GET", Path: "/search"}); e.Caller.Subject != "ip:unknown" || !strings.Contains(e.Notes[0],
		"--ip") {
		t.Errorf("no address: got %+v, want the subject ip:unknown and a note about --ip", e)
	}
}

// Each element of a claim has its limit, and a note names a claim with more elements than count.
func TestExplain_claims(t *testing.T) {
	d := newDesk(t, "memory")
	for n, want := range map[int]int{2: 2, 9: 8} {
		orgs := strings.Split("a,b,c,d,e,f,g,h,i", ",")[:n]
		e := d.explain(operator.Question{Method: "GET", Path: "/x", User: "u", Claims: map[string][]string{"org": orgs}})
		limits := 0
		for _, l := range e.Limits {
			if l.Name == "org" {
				limits++
			}
		}
		if noted := strings.Contains(strings.Join(e.Notes, " "), "the claim org cannot count"); limits != want || noted != (n > want) {
			t.Errorf("%d elements: got %d limits and the notes %q, want %d limits", n, limits, e.Notes, want)
		}
	}
}

// If the store fails, each question returns an error.
func TestOperator_storeFails(t *testing.T) {
	d := newDesk(t, "memory")
	d.store = failing{d.store}
	d.Limiters = []*limiter.Limiter{storetest.Must(limiter.New(d.store, limiter.Options{}))}
	if _, err := d.Explain(t.Context(), operator.Question{Method: "GET", Path: "/search"}); !errors.Is(err, limiter.ErrUnavailable) {
		t.Errorf("explain: got error %v, want ErrUnavailable", err)
	}
	if _, err := d.Usage(t.Context(), "user:alice"); !errors.Is(err, limiter.ErrUnavailable) {
		t.Errorf("usage: got error %v, want ErrUnavailable", err)
	}
	if _, err := d.Reset(t.Context(), "user:alice"); !errors.Is(err, limiter.ErrUnavailable) {
		t.Errorf("reset: got error %v, want ErrUnavailable", err)
	}
}

// During an outage, on_error can decide the request although the store answers a read. Notes then state
// that the usage is from the store, and the decision is not.
func TestExplain_undecided(t *testing.T) {
	d := newDesk(t, "memory")
	d.Limiters = []*limiter.Limiter{storetest.Must(limiter.New(undecided{d.store}, limiter.Options{}))}
	e, err := d.Explain(t.Context(), operator.Question{Method: "GET", Path: "/search", User: "alice"})
	if err != nil || e.Decision.Degraded == "" || !strings.Contains(strings.Join(e.Notes, "\n"),
		"on_error decides, not the usage that is shown") {
		t.Errorf("explanation: got %+v, error %v, want a degraded decision with a note", e, err)
	}
}

type undecided struct{ limiter.Store }

func (undecided) Take(context.Context, algo.Instant, limiter.Subject, []limiter.Charge, []algo.Result) (bool, error) {
	return false, limiter.ErrUnavailable
}

type failing struct{ limiter.Store }

func (failing) Inspect(context.Context, limiter.Subject) ([]limiter.Entry, error) {
	return nil, limiter.ErrUnavailable
}

// A malformed path gets 400. Its explanation has the limits by address that it charges.
func TestExplain_malformedPath(t *testing.T) {
	d := newDesk(t, "memory")
	d.rules = parse(t, `{"rules":[{"endpoint":"*","limits":{"*":[{"name":"all","requests":1,"window":"1m","per":["client"]},`+
		`{"name":"address","requests":2,"window":"1m","per":["ip"]}]}}]}`)
	for _, path := range []string{"/search%zz", "/x/../search", "/x%2F..%2Fsearch"} {
		e := d.explain(operator.Question{Method: "GET", Path: path, User: "alice"})
		if e.Decision.Status != http.StatusBadRequest || e.Decision.Allowed || len(e.Limits) != 1 || e.Limits[0].Name != "address" ||
			len(e.Readings) > 0 {
			t.Errorf("%s: got %+v, want 400 and the limit address", path, e)
		}
	}
}

// An explanation shows the readings of a path that is not plain.
func TestExplain_readings(t *testing.T) {
	d := newDesk(t, "memory")
	d.rules = parse(t, `{"rules":[{"endpoint":"/items/{id}","limits":{"*":{"name":"items","requests":5,"window":"1m"}}},`+
		`{"endpoint":"/items/1/x","limits":{"*":{"name":"x","requests":5,"window":"1m"}}}]}`)
	e := d.explain(operator.Question{Method: "GET", Path: "/items/1%2fx"})
	if want := []string{"/items/1%2fx", "/items/1%2Fx", "/items/1/x"}; !slices.Equal(e.Readings, want) || len(e.Limits) != 2 ||
		e.Path != "/items/1%2fx" {
		t.Errorf("got %+v, want the readings %q and two limits", e, want)
	}
	if e := d.explain(operator.Question{Method: "GET", Path: "/items/1"}); e.Readings != nil {
		t.Errorf("plain path: got readings %q, want none", e.Readings)
	}
}

// An explanation of an exempt request has the exemption, no limits and no store calls.
func TestExplain_exempt(t *testing.T) {
	d := newDesk(t, "memory")
	d.rules = parse(t, `{"rules":[{"endpoint":"*","limits":{"*":{"requests":1,"window":"1m"}}}],"exempt":[{"user":"ops","name":"operators"}]}`)
	e := d.explain(operator.Question{Method: "GET", Path: "/a", User: "ops"})
	rules := []operator.Matched{{Path: "rules[0]", Endpoint: "*", Reasons: []string{"exempt[0] exempts the request"}}}
	const want = `{"kind":"user","value":"ops","path":"exempt[0]","name":"operators"}`
	if got, err := json.Marshal(e.Exempt); err != nil || string(got) != want || len(e.Limits) > 0 || !e.Decision.Allowed ||
		!reflect.DeepEqual(e.Rules, rules) {
		t.Errorf("got %+v with exemption %s, %v, want %s and no limits", e, got, err, want)
	}
	if e := d.explain(operator.Question{Method: "GET", Path: "/a", User: "alice"}); e.Exempt != nil || len(e.Limits) != 1 {
		t.Errorf("another user: got %+v, want one limit and no exemption", e)
	}
}

// A limit shows the reserve that it reads from the body of a request.
func TestExplain_reserve(t *testing.T) {
	d := newDesk(t, "memory")
	d.rules = parse(t, `{"rules":[{"endpoint":"/chat","limits":{"*":{"name":"tokens","requests":100000,"window":"1m","count":"cost",`+
		`"reserve":{"json":"max_tokens|generation.max","default":4000,"most":32000}}}}]}`)
	want := operator.Reserve{JSON: "max_tokens|generation.max", Default: 4000, Most: 32000}
	e := d.explain(operator.Question{Method: "POST", Path: "/chat", User: "alice"})
	if len(e.Limits) != 1 || e.Limits[0].Reserve == nil || *e.Limits[0].Reserve != want || e.Limits[0].Cost != 32000 {
		t.Errorf("got %+v, want the reserve %+v", e.Limits, want)
	}
}

// The usage of a caller has the debt of a limit whose cost was known after the answer.
func TestUsage_debt(t *testing.T) {
	d := newDesk(t, "memory")
	d.rules = parse(t, `{"rules":[{"endpoint":"/chat","limits":{"*":{"name":"input","requests":100,"window":"1m","count":"cost",`+
		`"reserve":20}}}]}`)
	charges := d.rules.Charges(nil, "POST", rules.EncodedPath("/chat"), caller.Caller{User: "alice"})
	_, receipt, err := d.Limiters[0].TakeRefundable(t.Context(), d.now, charges)
	if err != nil {
		t.Fatal(err)
	}
	receipt.Settle(t.Context(), d.now, func(limiter.Charge) int64 { return 150 })
	if limits := d.inspect("user:alice").Limits; len(limits) != 1 || limits[0].State.Debt != 50 || limits[0].State.Remaining != 0 ||
		limits[0].Rule != "/chat" {
		t.Errorf("usage: got %+v, want a debt of 50 of the rule /chat", limits)
	}
}
