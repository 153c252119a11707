package lambdahttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/origin"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// byAddress counts every request by its address.
const byAddress = `{"rules":[{"endpoint":"*","limits":{"global":{"name":"address","requests":1000000,"window":"1h","per":["ip"]}}}]}`

// fronted makes a an environment behind a distribution that sends secret.
func (a *target) fronted(t testing.TB, believed string, refuse bool) (secret string) {
	t.Helper()
	secrets := origin.Derive([]byte("the key of this run"))
	a.Viewers = origin.New(origin.Options{
		Believed: storetest.Must(origin.ParseBelieved(believed)), Refuse: refuse, Logger: slog.New(slog.DiscardHandler),
		Load: func(context.Context) (origin.Secrets, error) { return secrets, nil },
	})
	a.Rules = storetest.Must(fixed(rules.Parse([]byte(byAddress), rules.Options{Version: 1})))
	return secrets.Sent(noon)
}

// A request without a valid secret is counted by its source address or refused, whatever fields it has, on every host. A
// request with one is counted by the address in the field that is believed, if this is an address.
func TestAttack_viewerAddress(t *testing.T) {
	const combinations, seed, source = 3000, 27, "203.0.113.7"
	random := rand.New(rand.NewPCG(seed, seed))
	pick := func(values ...string) string { return values[random.IntN(len(values))] }
	names := slices.Sorted(maps.Keys(hosts))
	targets := map[string]*target{}
	secrets := map[string]string{}
	for _, believed := range []string{"cloudfront", "weir", "hops:1", "hops:2"} {
		for _, refuse := range []bool{false, true} {
			a := newTarget(t)
			secrets[believed] = a.fronted(t, believed, refuse)
			targets[fmt.Sprint(believed, refuse)] = a
		}
	}
	moved, refused := 0, 0
	for i := range combinations {
		host, believed, refuse := pick(names...), pick("cloudfront", "weir", "hops:1", "hops:2"), random.IntN(2) == 0
		viewer := pick("198.51.100.9", "2001:db8:5::9", "192.0.2.77")
		junk := pick("", " ", "unknown", viewer+"%eth0", "["+viewer+"]:80", viewer+":99999", viewer+", "+viewer, viewer+":1,"+viewer+":1", strings.Repeat("9", 5000), "for="+viewer)
		header, valid := map[string]string{}, random.IntN(3) == 0
		if valid {
			header["weir-origin-secret"] = secrets[believed]
		} else if random.IntN(3) > 0 {
			header["weir-origin-secret"] = pick("", "wrong", strings.Repeat("A", 43), strings.ToUpper(secrets[believed]), secrets[believed]+","+secrets[believed], secrets[believed][1:], strings.Repeat("x", 5000))
		}
		good := random.IntN(3) > 0
		field := map[string]string{"cloudfront": "cloudfront-viewer-address", "weir": "weir-viewer-address"}[believed]
		for _, name := range []string{"cloudfront-viewer-address", "weir-viewer-address", "x-real-ip", "forwarded"} {
			switch {
			case name == field && good && believed == "cloudfront":
				header[name] = viewer + ":4711"
			case name == field && good:
				header[name] = viewer
			case random.IntN(2) == 0:
				header[name] = junk
			}
		}
		forwarded := pick("", junk+", ", "192.0.2.200, ")
		switch {
		case believed == "hops:1" && good:
			forwarded += viewer
		case believed == "hops:2" && good:
			forwarded += viewer + ", 192.0.2.201"
		default:
			forwarded = junk
		}
		switch host { // the harness of the load balancer appends the source address; a server does not
		case "load balancer", "net/http":
		default:
			forwarded += ", " + source
		}
		header["x-forwarded-for"] = forwarded
		if host != "net/http" && random.IntN(2) == 0 { // the name of a field has any case
			for name, value := range maps.Clone(header) {
				delete(header, name)
				header[http.CanonicalHeaderKey(name)] = value
			}
		}
		a := targets[fmt.Sprint(believed, refuse)]
		a.store.subjects = nil
		got := hosts[host](t, a, request{header: header}.withDefaults())
		want := []string{"ip:" + source}
		switch {
		case valid && good:
			want = []string{map[string]string{"198.51.100.9": "ip:198.51.100.9", "2001:db8:5::9": "ip:2001:db8:5::/64", "192.0.2.77": "ip:192.0.2.77"}[viewer]}
			moved++
		case !valid && refuse:
			want = nil
			refused++
		}
		status := http.StatusOK
		if !valid && refuse {
			status = map[bool]int{true: http.StatusTooManyRequests, false: http.StatusForbidden}[host == "REST API"]
		}
		// A junk field with a valid secret counts by the source address, or by an address further right that a proxy wrote.
		if wrote := a.wrote(); (!valid || good) && !slices.Equal(wrote, want) || got.status != status {
			t.Fatalf("seed %d, combination %d: %s, %s, valid secret %t, good field %t, refuse %t, header %.200q: got status %d, counted %q; want %d, %q", seed, i, host, believed, valid, good, refuse, fmt.Sprint(header), got.status, wrote, status, want)
		}
	}
	if moved < combinations/10 || refused < combinations/10 {
		t.Errorf("got %d requests by another address and %d refused of %d, want more", moved, refused, combinations)
	}
}

// Weir removes the secret, and an address without a valid one, from a request that it passes on itself.
func TestEnvironment_Serve_originSecret(t *testing.T) {
	for name, file := range map[string]string{"HTTP API": "http-api-anonymous.json", "function URL": "function-url-anonymous.json", "load balancer": "alb-anonymous.json", "REST API": "rest-proxy-anonymous.json"} {
		for _, valid := range []bool{true, false} {
			a := newTarget(t)
			secret := a.fronted(t, "weir", false)
			if !valid {
				secret = "forged"
			}
			event := sentBy(t, file, "", map[string]string{"weir-origin-secret": secret, "weir-viewer-address": "198.51.100.99"})
			var got http.Header
			api := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
			if _, err := lambdahttp.NewHandler(a.Environment, api).Invoke(ctx, event); err != nil {
				t.Fatal(err)
			}
			if _, sent := got[contract.OriginSecretField]; sent || len(got) == 0 || (got.Get(contract.ViewerAddressField) == "198.51.100.99") != valid {
				t.Errorf("%s, handler, valid %t: got the fields %v, want all but the secret and a forged address", name, valid, got)
			}
			var passed []byte
			if _, err := lambdahttp.NewLayer(a.Environment).Invoke(ctx, event, func(a *lambdahttp.Admitted) error {
				passed = bytes.Clone(a.Event)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			var members struct {
				Headers      map[string]any
				MultiHeaders map[string]any `json:"multiValueHeaders"`
			}
			if err := json.Unmarshal(passed, &members); err != nil || bytes.Contains(passed, []byte(secret)) || bytes.Contains(passed, []byte("198.51.100.99")) != valid || len(members.Headers)+len(members.MultiHeaders) == 0 {
				t.Errorf("%s, layer, valid %t: got the event %s, error %v; want it without the secret and a forged address", name, valid, passed, err)
			}
		}
	}
}

// Without a distribution, the field is one of the API, and passes unchanged.
func TestEnvironment_Serve_noViewers(t *testing.T) {
	a := newTarget(t)
	event := sentBy(t, "http-api-anonymous.json", "", map[string]string{"weir-origin-secret": "of the API"})
	if _, err := lambdahttp.NewLayer(a.Environment).Invoke(ctx, event, func(a *lambdahttp.Admitted) error {
		if !bytes.Equal(a.Event, event) {
			t.Errorf("got the event %s, want it unchanged", a.Event)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// A direct request is refused without a store call, and counted.
func TestEnvironment_direct(t *testing.T) {
	a := newTarget(t)
	var log bytes.Buffer
	a.Recorder = telemetry.New(&log, "test", nil)
	secret := a.fronted(t, "weir", true)
	api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "passed") })
	send := func(method, secret string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(ctx, method, "/api/v1/search", http.NoBody)
		if secret != "" {
			r.Header.Set(contract.OriginSecretField, secret)
		}
		w := httptest.NewRecorder()
		a.Serve(api).ServeHTTP(w, r)
		return w
	}
	if w := send(http.MethodGet, "wrong"); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), `"error":"direct_request"`) || w.Header().Get("Retry-After") != "" || w.Header().Get("Cache-Control") != "no-store" || len(a.wrote()) != 0 {
		t.Errorf("direct: got %d %v %s after writes of %v, want 403 without a write", w.Code, w.Header(), w.Body, a.wrote())
	}
	if w := send(http.MethodOptions, ""); w.Code != http.StatusForbidden {
		t.Errorf("OPTIONS: got %d %s, want 403", w.Code, w.Body)
	}
	if w := send(http.MethodGet, secret); w.Body.String() != "passed" {
		t.Errorf("through the distribution: got %d %s, want it to pass", w.Code, w.Body)
	}
	a.Recorder.Flush(noon.Add(time.Minute))
	if got := log.String(); strings.Count(got, `"AddressesNotFound":1`) != 1 {
		t.Errorf("metrics: got %s, want one address that was not found, in the request through the distribution", got)
	}
	if got := log.String(); strings.Count(got, `"DirectRequests":1`) != 2 || strings.Contains(got, secret) {
		t.Errorf("metrics: got %s, want two lines with direct requests", got)
	}
	if got := log.String(); strings.Contains(got, `"Refused":1`) || strings.Contains(got, `"weir":"refused"`) || !strings.Contains(got, `"Allowed":1`) {
		t.Errorf("metrics: got %s, want no refusal by a limit", got)
	}
	event := sentBy(t, "rest-authorizer-anonymous.json", "", map[string]string{"weir-origin-secret": "wrong"})
	p, err := authorize(t, a.Environment, event)
	if err != nil || effect(p) != "Deny" || p.Context["problemError"] != "direct_request" {
		t.Errorf("authorizer: got %+v, error %v; want Deny with the problem", p, err)
	}
}

// Behind a distribution, an admitted answer has a Cache-Control, so that CloudFront gives it to no other client that waits
// for the same path. An API can set its own.
func TestEnvironment_Serve_uncollapsed(t *testing.T) {
	for name, file := range map[string]string{"HTTP API": "http-api-anonymous.json", "load balancer": "alb-anonymous.json", "REST API": "rest-proxy-anonymous.json"} {
		for own, want := range map[string]string{"": "private, no-store", "max-age=5": "max-age=5"} {
			for _, fronted := range []bool{true, false} {
				a := newTarget(t)
				if fronted {
					a.fronted(t, "weir", false)
				} else if own == "" {
					want = ""
				}
				event := sentBy(t, file, "", nil)
				handler := lambdahttp.NewHandler(a.Environment, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					if own != "" {
						w.Header().Set("Cache-Control", own)
					}
				}))
				if got := cacheControl(t, storetest.Must(handler.Invoke(ctx, event))); got != want {
					t.Errorf("%s, handler with %q, fronted %t: got Cache-Control %q, want %q", name, own, fronted, got, want)
				}
				var answered []byte
				if _, err := lambdahttp.NewLayer(a.Environment).Invoke(ctx, event, func(a *lambdahttp.Admitted) error {
					fields := map[string]string{}
					if own != "" {
						fields["cache-control"] = own
					}
					answered = bytes.Join(a.Answered(storetest.Must(json.Marshal(map[string]any{"statusCode": 200, "headers": fields}))), nil)
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				if got := cacheControl(t, answered); got != want {
					t.Errorf("%s, layer with %q, fronted %t: got Cache-Control %q, want %q", name, own, fronted, got, want)
				}
			}
		}
	}
}

// cacheControl returns the values of Cache-Control in an answer for a host.
func cacheControl(t *testing.T, answer []byte) string {
	t.Helper()
	var fields struct {
		Headers      map[string]string
		MultiHeaders map[string][]string `json:"multiValueHeaders"`
	}
	if err := json.Unmarshal(answer, &fields); err != nil {
		t.Fatal(err)
	}
	var all []string
	for name, value := range fields.Headers {
		if strings.EqualFold(name, "Cache-Control") {
			all = append(all, value)
		}
	}
	for name, values := range fields.MultiHeaders {
		if strings.EqualFold(name, "Cache-Control") {
			all = append(all, values...)
		}
	}
	return strings.Join(all, " | ")
}
