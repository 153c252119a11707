package lambdahttp_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"

	samples "github.com/weir-limits/weir/events"
)

// attacked contains the rules of these tests. Each limit has another number, so that an answer shows
// which limit decided.
const attacked = `{"rules":[
	{"endpoint":"/api/v1/search","method":"GET","limits":{"free":{"requests":5,"window":"1h"},"paid":{"requests":50,"window":"1h"},
		"enterprise":{"requests":500,"window":"1h"}}},
	{"endpoint":"*","limits":{
		"*":{"name":"org","requests":2000,"window":"1h","per":["claim:org"]},
		"global":{"name":"address","requests":3000,"window":"1h","per":["ip"]}}}],
	"overrides":[{"user":"big","limits":{"search":{"requests":1000,"window":"1h"}}},{"ip":"198.51.100.9","limits":{"search":{"requests":1001,
		"window":"1h"}}}]}`

// target is an environment under attack. store records its writes.
type target struct {
	*lambdahttp.Environment
	store *counting
	key   *ecdsa.PrivateKey // the issuer's key
}

func newTarget(t testing.TB) *target {
	t.Helper()
	key := storetest.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	document := storetest.Must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "a"}}}))
	set := storetest.Must(caller.ParseKeySet(document))
	tokens := storetest.Must(caller.NewVerifier(caller.TokenOptions{Keys: set, Issuer: samples.Issuer, Audience: []string{samples.Audience},
		Algorithms: []string{"ES256"}}))
	a := &target{store: &counting{Store: storetest.Must(memstore.New(memstore.Options{}))}, key: key}
	a.Environment = environment(t, a.store)
	a.Identifier = caller.New(caller.Options{Tokens: tokens, APIKeys: caller.NewRemoteRecords(noRecords{})})
	a.Rules = storetest.Must(fixed(rules.Parse([]byte(attacked), rules.Options{Version: 1})))
	return a
}

// noRecords is a table without API keys.
type noRecords struct{}

func (noRecords) Secret(context.Context) ([]byte, error) { return []byte(secret), nil }

func (noRecords) Record(context.Context, string) (caller.Record, bool, error) {
	return caller.Record{}, false, nil
}

// token returns an Authorization header with claims that the issuer has signed.
func (a *target) token(t testing.TB, claims map[string]any) string {
	t.Helper()
	return a.signed(t, a.key, claims)
}

func (a *target) signed(t testing.TB, key *ecdsa.PrivateKey, claims map[string]any) string {
	t.Helper()
	signer := storetest.Must(jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "a"}}, nil))
	all := map[string]any{"iss": samples.Issuer, "aud": samples.Audience, "exp": noon.Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	token := storetest.Must(jwt.Signed(signer).Claims(all).Serialize())
	return "Bearer " + token
}

// forged returns an Authorization header whose claims are signed with a key that is not the issuer's.
func (a *target) forged(t testing.TB, claims map[string]any) string {
	t.Helper()
	key := storetest.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	return a.signed(t, key, claims)
}

// wrote returns the different subjects that were written, sorted.
func (a *target) wrote() []string {
	return slices.Compact(slices.Sorted(slices.Values(a.store.subjects)))
}

// request is a client's request and its source address.
type request struct {
	method, path, address string
	header                map[string]string
}

func (r request) withDefaults() request {
	if r.method == "" {
		r.method = http.MethodGet
	}
	if r.path == "" {
		r.path = "/api/v1/search"
	}
	if r.address == "" {
		r.address = "203.0.113.7"
	}
	return r
}

// reply describes the answer to a request: its status, whether the search ran, and the limit in
// its header fields, in requests.
type reply struct {
	status   int
	searched bool
	limit    string
}

// hosts maps the name of each host to a function that sends a request through this host.
var hosts = map[string]func(*testing.T, *target, request) reply{
	"REST API": func(t *testing.T, a *target, r request) reply {
		t.Helper()
		edit := func(e map[string]any) {
			e["path"], e["httpMethod"] = r.path, r.method
			e["methodArn"] = "arn:aws:execute-api:eu-central-1:123456789012:a1b2c3d4e5/dev/" + r.method + r.path
			e["requestContext"].(map[string]any)["identity"] = map[string]any{"sourceIp": r.address}
			multi := map[string][]string{}
			for name, value := range r.header {
				multi[name] = []string{value}
			}
			e["headers"], e["multiValueHeaders"] = r.header, multi
		}
		p, err := authorize(t, a.Environment, edited(t, "rest-authorizer-anonymous.json", edit))
		switch {
		case err != nil && err.Error() == "Unauthorized":
			return reply{status: http.StatusUnauthorized}
		case err != nil:
			return reply{status: http.StatusServiceUnavailable}
		case effect(p) != "Allow":
			return reply{status: http.StatusTooManyRequests, limit: fmt.Sprint(p.Context["rateLimitLimit"])}
		}
		return replied(t, a, edited(t, "rest-proxy-anonymous.json", func(e map[string]any) {
			edit(e)
			e["requestContext"].(map[string]any)["authorizer"] = p.Context
		}))
	},
	"HTTP API": func(t *testing.T, a *target, r request) reply {
		t.Helper()
		return replied(t, a, edited(t, "http-api-anonymous.json", func(e map[string]any) { r.v2(e, "/dev") }))
	},
	"function URL": func(t *testing.T, a *target, r request) reply {
		t.Helper()
		return replied(t, a, edited(t, "function-url-anonymous.json", func(e map[string]any) { r.v2(e, "") }))
	},
	"load balancer": func(t *testing.T, a *target, r request) reply {
		t.Helper()
		return replied(t, a, edited(t, "alb-anonymous.json", func(e map[string]any) {
			header := r.lower()
			header["x-forwarded-for"] = strings.TrimPrefix(header["x-forwarded-for"]+", "+r.address, ", ")
			e["path"], e["httpMethod"], e["headers"] = r.path, r.method, header
		}))
	},
	"net/http": func(t *testing.T, a *target, r request) reply {
		t.Helper()
		sent, err := http.ReadRequest(bufio.NewReader(strings.NewReader(r.method + " " + r.path + " HTTP/1.1\r\nHost: api.example\r\n\r\n")))
		if err != nil {
			return reply{status: http.StatusBadRequest} // net/http itself rejects the request
		}
		for name, value := range r.header {
			sent.Header.Set(name, value)
		}
		sent.RemoteAddr = r.address
		if addr, err := netip.ParseAddr(r.address); err == nil {
			sent.RemoteAddr = netip.AddrPortFrom(addr, 4711).String()
		}
		w := httptest.NewRecorder()
		a.Serve(sample.New(a.Environment)).ServeHTTP(w, sent)
		return reply{w.Code, w.Code == http.StatusOK && (r.method == http.MethodHead || strings.Contains(w.Body.String(), `"results"`)),
			w.Header().Get("X-Ratelimit-Limit")}
	},
}

func (r request) lower() map[string]string {
	header := map[string]string{}
	for name, value := range r.header {
		header[strings.ToLower(name)] = value
	}
	return header
}

// v2 writes r into an event of payload 2.0.
func (r request) v2(e map[string]any, stage string) {
	h := e["requestContext"].(map[string]any)["http"].(map[string]any)
	h["method"], h["sourceIp"] = r.method, r.address
	path := r.path
	if stage != "" { // an HTTP API decodes the path
		if decoded, err := url.PathUnescape(path); err == nil {
			path = decoded
		}
	}
	e["rawPath"], e["headers"] = stage+path, r.lower()
}

// edited returns a sample event that edit has changed.
func edited(t testing.TB, file string, edit func(map[string]any)) []byte {
	t.Helper()
	var event map[string]any
	if err := json.Unmarshal(sampleEvent(t, file), &event); err != nil {
		t.Fatal(err)
	}
	edit(event)
	b := storetest.Must(json.Marshal(event))
	return b
}

func replied(t *testing.T, a *target, event []byte) reply {
	t.Helper()
	b, err := lambdahttp.NewHandler(a.Environment, sample.New(a.Environment)).Invoke(ctx, event)
	if err != nil {
		return reply{status: http.StatusBadGateway}
	}
	var got answer
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	return reply{got.StatusCode, got.StatusCode == http.StatusOK && (strings.Contains(got.Body, `"results"`)), got.header("X-RateLimit-Limit")}
}

// onEachHost runs a test on each host with a new target.
func onEachHost(t *testing.T, test func(t *testing.T, a *target, send func(request) reply)) {
	t.Helper()
	for name, host := range hosts {
		t.Run(name, func(t *testing.T) {
			a := newTarget(t)
			test(t, a, func(r request) reply {
				t.Helper()
				return host(t, a, r.withDefaults())
			})
		})
	}
}

// A store key contains only verified names, with every separator escaped. So a caller cannot
// choose its key, and two callers never share one.
func TestAttack_chooseKey(t *testing.T) {
	names := []string{
		"alice", "alice|ip:203.0.113.7", "alice|claim:org=acme", "user:alice", "global", "apikey:k1", "../alice", "alice\x00", "alice\n",
		"alice{x}", "{alice}", "al%69ce", "%", "~", "~x",
		"weir-dev/1/user:alice", "ali=ce", strings.Repeat("a", 128), strings.Repeat("a", 129), strings.Repeat("a", 2000), strings.Repeat("|", 60),
		"\u202e", "ALICE", " alice", "alice ", "älice", "a\u0308lice", "\xff",
	}
	keys := regexp.MustCompile(`^(user:[A-Za-z0-9_.@+,/:%~-]{1,128}|claim:org=[A-Za-z0-9_.@+,/:%~-]{1,128}|ip:203\.0\.113\.7)$`)
	onEachHost(t, func(t *testing.T, a *target, send func(request) reply) {
		for _, name := range names {
			authorization := a.token(t, map[string]any{"sub": name, "org": name})
			if len(authorization) > 8000 {
				t.Fatal("token: got more bytes than the verifier accepts, want fewer")
			}
			if got := send(request{header: map[string]string{"Authorization": authorization}}); got.status != http.StatusOK || got.limit != "5" {
				t.Errorf("%.20q: got %+v, want 200 with the limit 5", name, got)
			}
		}
		wrote := a.wrote()
		if want := 2*len(names) + 1; len(wrote) != want {
			t.Errorf("got %d keys for %d names, want two for each name and one for the address: %d", len(wrote), len(names), want)
		}
		for _, key := range wrote {
			if !keys.MatchString(key) {
				t.Errorf("key: got %q, want the form %s", key, keys)
			}
		}
	})
}

// The tier of a caller comes only from a verified token or the record of an API key. A tier that the
// rules do not define has no effect.
func TestAttack_pickTier(t *testing.T) {
	onEachHost(t, func(t *testing.T, a *target, send func(request) reply) {
		for i, tier := range []any{"global", "*", "", "enterprise ", "ENTERPRISE", "enterprise\x00", "default_tier", "{param}", 1, true,
			map[string]any{"tier": "enterprise"}, strings.Repeat("x", 2000), nil} {
			got := send(request{header: map[string]string{"Authorization": a.token(t, map[string]any{"sub": fmt.Sprint("u", i), "tier": tier,
				"Tier": "enterprise", "plan": "enterprise"})}})
			if got.limit != "5" || got.status != http.StatusOK {
				t.Errorf("tier %.30q: got %+v, want the limit 5", fmt.Sprint(tier), got)
			}
		}
		for _, header := range []string{"Tier", "X-Tier", "X-Weir-Tier", "X-Amzn-Tier", "Weir"} {
			if got := send(request{header: map[string]string{header: "enterprise"}, address: "192.0.2.1",
				path: "/api/v1/search"}); got.limit != "5" {
				t.Errorf("header %s: got %+v, want the limit 5", header, got)
			}
		}
		if got := send(request{header: map[string]string{"Authorization": a.token(t, map[string]any{"sub": "paying",
			"tier": "paid"})}}); got.limit != "50" {
			t.Errorf("caller of the tier paid: got %+v, want the limit 50", got)
		}
	})
}

// An override applies only to a verified caller with exactly its name.
func TestAttack_pickOverride(t *testing.T) {
	onEachHost(t, func(t *testing.T, a *target, send func(request) reply) {
		for _, user := range []string{"BIG", "big ", " big", "big\x00", "user:big", "big|x", "198.51.100.9", "b\u200big"} {
			if got := send(request{header: map[string]string{"Authorization": a.token(t, map[string]any{"sub": user, "user": "big",
				"uid": "big"})}}); got.limit != "5" {
				t.Errorf("user %q: got %+v, want the limit 5", user, got)
			}
		}
		for _, header := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "X-User", "True-Client-Ip", "Cf-Connecting-Ip"} {
			if got := send(request{address: "192.0.2.2", header: map[string]string{header: "198.51.100.9"}}); got.limit != "5" {
				t.Errorf("header %s: got %+v, want the limit 5", header, got)
			}
		}
		if got := send(request{header: map[string]string{"Authorization": a.forged(t,
			map[string]any{"sub": "big"})}}); got.status != http.StatusUnauthorized {
			t.Errorf("forged token: got %+v, want 401", got)
		}
		if got := send(request{address: "198.51.100.9"}); got.limit != "1001" {
			t.Errorf("caller of the override: got %+v, want the limit 1001", got)
		}
	})
}

// A client cannot exceed the limit of the search with other spellings of the path. Each spelling that a back end can
// read as the search is charged on its limit, and dot segments are refused.
func TestAttack_spellPath(t *testing.T) {
	same := []string{
		"/api/v1/search", "/api/v1/search/", "/api/v1/search//", "//api/v1/search", "/api//v1///search", "/api/v1/%73earch",
		"/api/v1/%73%65%61%72%63%68", "/%61pi/v1/search", "/api%2Fv1%2Fsearch", "/api%2fv1/search", "/%2f/api/v1/search",
	}
	dots := []string{
		"/./api/v1/search", "/api/./v1/search/.", "/x/../api/v1/search", "/../api/v1/search", "/api/v1/x/%2e%2e/search", "/api/v1/%2E/search",
		"/api/v1/search/..%2fsearch", "/api/v1/search/x/..",
	}
	other := []string{
		"/api/v1/Search", "/API/V1/SEARCH", "/api/v1/search;x=1", "/api/v1/search;", "/api;/v1/search", "/api/v1/search.", "/api/v1/search.json",
		"/api/v1/searchx",
		"/api/v1\\search", "/api\\v1\\search", "/api/v1/search%5c", "/dev/api/v1/search", "/v1/api/v1/search", "/api/v1/%c0%afsearch",
		"/api/v1/%u0073earch", "/api/v1/search%", "/api/v1/search%2", "/api/v1/ſearch", "/api/v1/.../search", "/api/v1/search/*", "/*",
	}
	// these are the path of the search only on a host that decodes paths
	reread := []string{"/api/v1/search%3Fx", "/api/v1/search%23", "/api/v1/search%00", "/api/v1/search%20", "/api/v1/search%0a",
		"/api/v1/%2573earch", "/api%252Fv1/search"}
	onEachHost(t, func(t *testing.T, _ *target, send func(request) reply) {
		for i, path := range same {
			if got := send(request{path: path, address: fmt.Sprintf("192.0.2.%d", i)}); got.limit != "5" || !got.searched && i == 0 {
				t.Errorf("%s: got %+v, want a charge on the limit of the search", path, got)
			}
		}
		for i, path := range dots {
			if got := send(request{path: path, address: fmt.Sprintf("192.0.2.%d", 100+i)}); got.status != http.StatusBadRequest &&
				got.status != http.StatusTooManyRequests {
				t.Errorf("%s: got %+v, want 400, or 429 of a REST API", path, got)
			}
		}
		searched := 0
		for range 6 {
			for _, path := range slices.Concat(same[:1], dots, other) {
				if send(request{path: path}).searched {
					searched++
				}
			}
		}
		if searched != 5 {
			t.Errorf("the search ran %d times, want 5", searched)
		}
		for i, path := range slices.Concat(other, reread) {
			if got := send(request{path: path, address: "198.51.100.1"}); got.searched || got.limit == "5" && i < len(other) {
				t.Errorf("%s: got %+v, want an endpoint other than the search", path, got)
			}
		}
	})
}

// A client cannot exceed the limit of the search with other spellings of the base path of a custom domain.
// TestAuthorizer_path covers other domains.
func TestAttack_spellBasePath(t *testing.T) {
	a := newTarget(t)
	a.BasePaths = []string{"/v1"}
	searched := 0
	for range 3 {
		for _, domain := range []string{"api.example.com", "API.example.com", "api.example.com:443",
			"a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com"} {
			for _, path := range []string{"/v1/api/v1/search", "/v1//api/v1/search/", "/%761/api/v1/search", "/v1/./api/v1/search",
				"/v1/../v1/api/v1/search", "/v1/v1/api/v1/search", "/V1/api/v1/search", "/api/v1/search"} {
				event := edited(t, "rest-authorizer-anonymous.json", func(e map[string]any) {
					e["path"] = path
					e["requestContext"].(map[string]any)["domainName"] = domain
				})
				p, err := authorize(t, a.Environment, event)
				if err != nil {
					t.Fatal(err)
				}
				if effect(p) != "Allow" {
					continue
				}
				behind := edited(t, "rest-proxy-anonymous.json", func(e map[string]any) {
					c := e["requestContext"].(map[string]any)
					e["path"], c["domainName"], c["authorizer"] = path, domain, p.Context
				})
				if replied(t, a, behind).searched {
					searched++
				}
			}
		}
	}
	if searched == 0 || searched > 5 { // a spelling that the router does not know is charged too
		t.Errorf("the search ran %d times, want at most 5", searched)
	}
}

// HEAD counts as GET, and so does get, which the router does not serve: five of the first requests count. No header overrides
// the method.
func TestAttack_spellMethod(t *testing.T) {
	onEachHost(t, func(t *testing.T, _ *target, send func(request) reply) {
		served := 0
		for range 3 {
			for _, method := range []string{"GET", "HEAD", "get", "Get", "hEAD", "OPTIONS", "POST", "PUT", "TRACE", "CONNECT", "GET1", "X"} {
				got := send(request{method: method, header: map[string]string{"X-Http-Method-Override": "GET", "X-Method-Override": "GET"}})
				if got.status == http.StatusOK {
					served++
				}
			}
		}
		if served != 2 {
			t.Errorf("the search was served %d times, want 2", served)
		}
	})
}

// The host provides the address of a caller, and a client cannot change it with header fields. Behind a
// load balancer, this address is the last one in X-Forwarded-For, because the load balancer appends it.
func TestAttack_forwardedFor(t *testing.T) {
	onEachHost(t, func(t *testing.T, a *target, send func(request) reply) {
		served := 0
		for i := range 60 {
			spoof := fmt.Sprintf("198.51.100.%d", i)
			header := map[string]string{}
			for _, name := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "X-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip",
				"X-Originating-Ip", "X-Cluster-Client-Ip", "Via"} {
				header[name] = spoof
			}
			switch i % 4 {
			case 1:
				header["X-Forwarded-For"] = "for=" + spoof + ", " + spoof + ","
			case 2:
				header["X-Forwarded-For"] = strings.Repeat(spoof+", ", 200) + "[2001:db8::1]:4711"
			case 3:
				header["X-Forwarded-For"] = "\"" + spoof + "\x00\n"
			}
			if send(request{header: header}).status == http.StatusOK {
				served++
			}
		}
		if got := a.wrote(); served != 5 || !slices.Equal(got, []string{"ip:203.0.113.7"}) {
			t.Errorf("served %d times, want 5; wrote %v", served, got)
		}
	})
}

// Every spelling of an address has the same key. An IPv6 network of 64 bits is one caller.
func TestAttack_spellAddress(t *testing.T) {
	for want, spellings := range map[string][]string{
		"ip:203.0.113.7": {"203.0.113.7", "::ffff:203.0.113.7", "::ffff:cb00:7107", "::FFFF:CB00:7107", "0:0:0:0:0:ffff:203.0.113.7",
			"0000:0000:0000:0000:0000:ffff:cb00:7107", "203.0.113.7:4711", "[::ffff:203.0.113.7]:80", "::ffff:203.0.113.7%eth0"},
		"ip:2001:db8:1:2::/64": {"2001:db8:1:2::", "2001:db8:1:2:3::4", "2001:DB8:1:2::1", "2001:0db8:0001:0002:0000:0000:0000:0001",
			"2001:db8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::203.0.113.7", "[2001:db8:1:2::5]:4711", "2001:db8:1:2::1%eth0"},
		"ip:unknown": {"203.0.113.007", "0xcb007107", "3405803783", "203.0.113", "127.1", "localhost", "203.0.113.7/32", "%",
			"::ffff:203.0.113.7:80:80"},
	} {
		onEachHost(t, func(t *testing.T, a *target, send func(request) reply) {
			served := 0
			for range 2 {
				for _, address := range spellings {
					if send(request{address: address}).status == http.StatusOK {
						served++
					}
				}
			}
			if got := a.wrote(); served != 5 || !slices.Equal(got, []string{want}) {
				t.Errorf("%s: served %d times, want 5; wrote %v", want, served, got)
			}
		})
	}
}

// A bad credential charges nothing to the user that it names, even together with a valid credential.
// TestAuthorizer_credentials covers the charge to the address.
func TestAttack_chargeAnotherUser(t *testing.T) {
	onEachHost(t, func(t *testing.T, a *target, send func(request) reply) {
		good := a.token(t, map[string]any{"sub": "victim", "org": "acme"})
		middle := strings.Split(good, ".")
		for name, header := range map[string]map[string]string{
			"forged":                           {"Authorization": a.forged(t, map[string]any{"sub": "victim", "org": "acme"})},
			"without a signature":              {"Authorization": middle[0] + "." + middle[1] + "."},
			"alg none":                         {"Authorization": "Bearer eyJhbGciOiJub25lIn0." + middle[1] + "."},
			"two tokens":                       {"Authorization": good + ", " + good},
			"expired":                          {"Authorization": a.token(t, map[string]any{"sub": "victim", "exp": noon.Add(-time.Hour).Unix()})},
			"for another API":                  {"Authorization": a.token(t, map[string]any{"sub": "victim", "aud": "other"})},
			"a valid token and an unknown key": {"Authorization": good, "X-Api-Key": caller.NewAPIKey()},
			"an id in place of the key":        {"X-Api-Key": "weir_victim"},
			"a hash in place of the key":       {"X-Api-Key": "weir_" + caller.HashAPIKey([]byte(secret), "victim")},
		} {
			for range 10 {
				if got := send(request{header: header}); got.status != http.StatusUnauthorized {
					t.Errorf("%s: got %+v, want 401", name, got)
				}
			}
		}
		if got := a.wrote(); !slices.Equal(got, []string{"ip:203.0.113.7"}) {
			t.Errorf("wrote %v, want only the address", got)
		}
		for i := range 6 {
			want := map[bool]int{true: http.StatusOK, false: http.StatusTooManyRequests}[i < 5]
			if got := send(request{header: map[string]string{"Authorization": good}}).status; got != want {
				t.Errorf("request %d of the victim: got status %d, want %d", i+1, got, want)
			}
		}
	})
}

// void is a store that stores nothing.
type void struct {
	limiter.Store
	storetest.Patient
}

func (void) Take(_ context.Context, _ algo.Instant, _ limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool, error) {
	for i, c := range charges {
		results[i].Machine = c.Limit.Machine()
	}
	return true, nil
}

// The memory of an environment is bounded in any flood. This covers its callers, leases, API keys,
// key ids and cached refusals.
func TestAttack_memory(t *testing.T) {
	a := newTarget(t)
	a.Rules = storetest.Must(fixed(rules.Parse([]byte(`{"rules":[{"endpoint":"*","limits":{"*":{"name":"all","requests":1000,"window":"1h",`+
		`"lease":10,"per":["client"]},"global":{"name":"address","requests":1,"window":"1h","per":["ip"]}}}]}`), rules.Options{Version: 1})))
	a.Limiter = storetest.Must(limiter.New(void{}, limiter.Options{Subjects: 600, Logger: a.Logger}))
	a.Recorder = telemetry.New(&bytes.Buffer{}, "test", nil)
	function := lambdahttp.NewAuthorizer(a.Environment)
	event := string(edited(t, "rest-authorizer-anonymous.json", func(e map[string]any) {
		e["multiValueHeaders"] = map[string][]string{"X-Api-Key": {"KEY"}, "Authorization": {"TOKEN"}, "X-Header-NUMBER": {"x"}}
		e["path"] = "/NUMBER/x"
		e["requestContext"].(map[string]any)["identity"] = map[string]any{"sourceIp": "2001:db8:NUMBER::1"}
	}))
	flood := func(from, to int) uint64 {
		for i := from; i < to; i++ {
			key, token := "", ""
			switch i % 4 {
			case 1, 3:
				key = caller.NewAPIKey()
			case 2:
				token = fmt.Sprintf("Bearer %s.e30.AAAA", base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"alg":"ES256","kid":"%d"}`, i)))
			case 0:
				token = fmt.Sprintf("Basic %d", i)
			}
			number := fmt.Sprintf("%x:%x", i>>16+1, i&0xffff)
			_, _ = function.Invoke(ctx, []byte(strings.NewReplacer("NUMBER", number, "KEY", key, "TOKEN", token).Replace(event)))
		}
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for range 12_000 { // the cache of unknown keys has room for 10,000
		_, _ = a.Identifier.Caller(ctx, noon, caller.Credentials{APIKey: caller.NewAPIKey()})
	}
	first := flood(0, 4_000) // fills the limiter's table
	then := flood(4_000, 16_000)
	runtime.KeepAlive(function)
	if grown := int64(then) - int64(first); grown > 512<<10 {
		t.Errorf("12,000 requests of new callers allocate %d bytes permanently, want at most 512 KiB", grown)
	}
}

// A flood of bad credentials writes each log message at most once a second. No line contains a part
// of a credential.
func TestAttack_log(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the synthetic clock does not advance
		a := newTarget(t)
		var log bytes.Buffer
		a.Logger = slog.New(telemetry.NewRateLimitedHandler(slog.NewJSONHandler(&log, nil)))
		a.Recorder = telemetry.New(&log, "test", nil)
		for name, host := range hosts {
			for i := range 100 {
				key := caller.NewAPIKey()
				token := a.forged(t, map[string]any{"sub": "victim\n{\"weir\":\"refused\"}"})
				r := request{address: fmt.Sprintf("192.0.2.%d", i%3), header: map[string]string{"X-Api-Key": key},
					path: "/api/v1/search\n%0asecret-in-a-path"}
				if i%2 == 0 {
					r.header = map[string]string{"Authorization": token}
				}
				host(t, a, r.withDefaults())
				if text := log.String(); strings.Contains(text, key[5:]) || strings.Contains(text, token[len(token)-40:]) {
					t.Fatalf("%s: got a log with a credential, want none: %s", name, text)
				}
			}
		}
		for _, secret := range []string{"victim", "192.0.2", "secret", "api/v1"} {
			if strings.Contains(log.String(), secret) {
				t.Errorf("got a log that contains %q, want no secret: %s", secret, &log)
			}
		}
		if lines := strings.Count(log.String(), "\n"); lines > 4 {
			t.Errorf("got %d log lines in one second, want at most 4: %s", lines, &log)
		}
	})
}

// Two header fields whose names differ only in case are joined, so the credential is invalid.
// TestAuthorizer_repeatedHeader covers one field with two values.
func TestAttack_spellHeader(t *testing.T) {
	a := newTarget(t)
	for i := range 50 { // Go encodes and reads the two fields in a random order
		event := edited(t, "rest-authorizer-anonymous.json", func(e map[string]any) {
			delete(e, "multiValueHeaders")
			e["headers"] = map[string]string{"authorization": a.token(t, map[string]any{"sub": "alice"}),
				"AUTHORIZATION": a.token(t, map[string]any{"sub": "bob"})}
		})
		if _, err := authorize(t, a.Environment, event); err == nil || err.Error() != "Unauthorized" {
			t.Fatalf("request %d: got %v, want Unauthorized", i, err)
		}
	}
	if got := a.wrote(); !slices.Equal(got, []string{"ip:203.0.113.7"}) {
		t.Errorf("wrote %v, want only the address", got)
	}
}

// The limit of an address bounds how many names one address can try at the login. All spellings of a
// name count as one name.
func TestAttack_login(t *testing.T) {
	a := newTarget(t)
	a.Rules = storetest.Must(fixed(rules.Parse([]byte(`{"rules":[{"endpoint":"/api/v1/login","limits":{"*":{"name":"login","requests":30,`+
		`"window":"1h","per":["ip"]}}}]}`), rules.Options{Version: 1})))
	t.Setenv("SAMPLE_LOGIN", "alice:right")
	try := func(user, password string) int {
		return replied(t, a, edited(t, "http-api-anonymous.json", func(e map[string]any) {
			e["rawPath"], e["body"], e["isBase64Encoded"] = "/dev/api/v1/login", fmt.Sprintf(`{"user":%q,"password":%q}`, user, password), false
		})).status
	}
	for i, user := range []string{"alice", "ALICE", "aLiCe", "Alice", "alicE", "alice"} {
		want := map[bool]int{true: http.StatusUnauthorized, false: http.StatusTooManyRequests}[i < 5]
		if got := try(user, "wrong"); got != want {
			t.Errorf("attempt %d as %s: got status %d, want %d", i+1, user, got, want)
		}
	}
	for i := range 100 {
		try(fmt.Sprint("u", i), "wrong")
	}
	if got := len(a.wrote()); got != 1+1+24 {
		t.Errorf("got %d items, want 26: the address, alice, and the 24 names within the limit of the address", got)
	}
}

// The functions answer or reject a large, deep or malformed event in time and memory proportional to
// the size of the event. The test compares an event with an event of sixteen times the size.
func TestAttack_hugeEvents(t *testing.T) {
	const unit = 64 << 10
	rest := func(edit func(e map[string]any, n int)) func(*testing.T, int) []byte {
		return func(t *testing.T, n int) []byte {
			return edited(t, "rest-proxy-anonymous.json", func(e map[string]any) {
				delete(e["requestContext"].(map[string]any), "authorizer")
				e["type"] = "REQUEST"
				edit(e, n)
			})
		}
	}
	text := func(old, piece string) func(*testing.T, int) []byte {
		return func(t *testing.T, n int) []byte {
			event := sampleEvent(t, "rest-proxy-anonymous.json")
			return []byte(strings.Replace(string(event), old, strings.Repeat(piece, n/len(piece)), 1))
		}
	}
	list := func(n int, value string) map[string][]string {
		values := map[string][]string{}
		for i := range n / 64 {
			values[fmt.Sprintf("X-%d", i)] = []string{value}
		}
		return values
	}
	for name, event := range map[string]func(*testing.T, int) []byte{
		"body": rest(func(e map[string]any, n int) {
			e["httpMethod"], e["path"], e["body"] = "POST", "/api/v1/data", strings.Repeat("x", n)
		}),
		"encoded body": rest(func(e map[string]any, n int) { e["isBase64Encoded"], e["body"] = true, strings.Repeat("eHh4", n/4) }),
		"many headers": rest(func(e map[string]any, n int) { e["multiValueHeaders"] = list(n, strings.Repeat("v", 30)) }),
		"one header": rest(func(e map[string]any, n int) {
			e["multiValueHeaders"] = map[string][]string{"X": slices.Repeat([]string{"v"}, n/4)}
		}),
		"authorization": rest(func(e map[string]any, n int) {
			e["multiValueHeaders"] = map[string][]string{"Authorization": {"Bearer " + strings.Repeat("a.", n/2)}}
		}),
		"many of them": rest(func(e map[string]any, n int) {
			e["multiValueHeaders"] = map[string][]string{"Authorization": slices.Repeat([]string{"Bearer a.b.c"}, n/16)}
		}),
		"API key": rest(func(e map[string]any, n int) {
			e["multiValueHeaders"] = map[string][]string{"x-api-key": {strings.Repeat("weir_", n/5)}}
		}),
		"path":          rest(func(e map[string]any, n int) { e["path"] = "/" + strings.Repeat("a", n) }),
		"path of parts": rest(func(e map[string]any, n int) { e["path"] = strings.Repeat("/a", n/2) }),
		"path of dots":  rest(func(e map[string]any, n int) { e["path"] = strings.Repeat("/a/..", n/5) }),
		"encoded path":  rest(func(e map[string]any, n int) { e["path"] = "/" + strings.Repeat("%2e%2f", n/6) }),
		"query":         rest(func(e map[string]any, n int) { e["multiValueQueryStringParameters"] = list(n, strings.Repeat("v", 30)) }),
		"context":       rest(func(e map[string]any, n int) { e["requestContext"].(map[string]any)["authorizer"] = list(n, "v") }),
		"address": rest(func(e map[string]any, n int) {
			e["requestContext"].(map[string]any)["identity"] = map[string]string{"sourceIp": strings.Repeat(":", n)}
		}),
		"method":         rest(func(e map[string]any, n int) { e["httpMethod"] = strings.Repeat("GET", n/3) }),
		"deep":           text(`"resource": "/api/v1/search"`, `"x":[[[[[[[[`),
		"deep in a body": text(`"body": null`, `"body":{`),
		"deep context":   text(`"weir": "allowed"`, `"a":{`),
		"no UTF-8":       text(`/api/v1/search`, "\xff\xfe"),
		"NUL":            text(`/api/v1/search`, "\x00"),
		"NUL, written":   text(`/api/v1/search`, `\u0000`),
		"half a pair":    text(`/api/v1/search`, `\ud800`),
	} {
		t.Run(name, func(t *testing.T) {
			a := newTarget(t)
			cost := func(n int) (time.Duration, uint64) {
				event := event(t, n)
				shortest, least := time.Hour, uint64(1<<63)
				for range max(1, min(8, 3<<20/n)) { // repeat fast cases, because other programs disturb the measurement
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					begun := processorTime(t)
					for _, f := range []interface {
						Invoke(context.Context, []byte) ([]byte, error)
					}{lambdahttp.NewAuthorizer(a.Environment), lambdahttp.NewHandler(a.Environment, sample.New(a.Environment))} {
						if b, err := f.Invoke(ctx, event); err == nil && !json.Valid(b) || err != nil && len(err.Error()) > 500 {
							t.Fatalf("event of %d bytes: answer %.100q, error %.600v; want JSON or a short error", len(event), b, err)
						}
					}
					shortest = min(shortest, processorTime(t)-begun)
					runtime.ReadMemStats(&after)
					least = min(least, after.TotalAlloc-before.TotalAlloc)
				}
				return shortest, least
			}
			small, smallBytes := cost(unit)
			large, largeBytes := cost(16 * unit)
			if large > 150*max(small, 200*time.Microsecond) {
				t.Errorf("time for %d bytes: %s, for 16 times as many: %s; want at most 150 times as long", unit, small, large)
			}
			if largeBytes > 40*max(smallBytes, 1<<20) || largeBytes > 64*16*unit {
				t.Errorf("allocation for %d bytes: %d bytes, for 16 times as many: %d bytes; want at most 40 times as much", unit, smallBytes,
					largeBytes)
			}
			if _, most := cost(6 << 20); most > 64*6<<20 { // the largest event of Lambda
				t.Errorf("an event of 6 MiB allocates %d MiB, want at most 384", most>>20)
			}
		})
	}
}

// processorTime returns the CPU time of this process. Unlike wall-clock time it does not depend
// on other programs.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
