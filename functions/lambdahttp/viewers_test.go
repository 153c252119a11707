package lambdahttp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	"github.com/weir-limits/weir/functions/viewer"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// byAddress counts every request by its address.
const byAddress = `{"rules":[{"endpoint":"*","limits":{"global":{"name":"address","requests":1000000,"window":"1h","per":["ip"]}}}]}`

// originSecret and secretBefore are the valid secrets of an environment that fronted makes.
const originSecret, secretBefore = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"

// fronted puts an environment behind a distribution or a proxy.
func (a *target) fronted(t testing.TB, source string) {
	t.Helper()
	a.Viewers = viewer.New(storetest.Must(viewer.Parse(source)), originSecret, secretBefore, slog.New(slog.DiscardHandler))
	a.Rules = storetest.Must(fixed(rules.Parse([]byte(byAddress), rules.Options{Version: 1})))
}

// A request without a valid secret is counted by its source address, whatever fields it has, on every host. A
// request with one is counted by the address in the field that is believed, if this is an address.
func TestAttack_viewerAddress(t *testing.T) {
	const combinations, seed, source = 3000, 27, "203.0.113.7"
	random := rand.New(rand.NewPCG(seed, seed))
	pick := func(values ...string) string { return values[random.IntN(len(values))] }
	names := slices.Sorted(maps.Keys(hosts))
	targets := map[string]*target{}
	for _, source := range []string{"cloudfront", "hops:1", "hops:2"} {
		targets[source] = newTarget(t)
		targets[source].fronted(t, source)
	}
	moved := 0
	for i := range combinations {
		host, believed := pick(names...), pick("cloudfront", "hops:1", "hops:2")
		client := pick("198.51.100.9", "2001:db8:5::9", "192.0.2.77")
		junk := pick("", " ", "unknown", client+"%eth0", "["+client+"]:80", client+":99999", client+", "+client, client+":1,"+client+":1",
			strings.Repeat("9", 5000), "for="+client)
		header, valid := map[string]string{}, random.IntN(3) == 0
		if valid {
			header["weir-origin-secret"] = pick(originSecret, secretBefore)
		} else if random.IntN(3) > 0 {
			header["weir-origin-secret"] = pick("", "wrong", strings.Repeat("0", 32), strings.ToUpper(originSecret), originSecret+","+originSecret,
				originSecret[1:], strings.Repeat("x", 5000))
		}
		good := random.IntN(3) > 0
		for _, name := range []string{"cloudfront-viewer-address", "x-real-ip", "forwarded"} {
			switch {
			case name == "cloudfront-viewer-address" && good && believed == "cloudfront":
				header[name] = client + ":4711"
			case random.IntN(2) == 0:
				header[name] = junk
			}
		}
		forwarded := pick("", junk+", ", "192.0.2.200, ")
		switch {
		case believed == "hops:1" && good:
			forwarded += client
		case believed == "hops:2" && good:
			forwarded += client + ", 192.0.2.201"
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
		a := targets[believed]
		a.store.subjects = nil
		got := hosts[host](t, a, request{header: header}.withDefaults())
		want := []string{"ip:" + source}
		if valid && good {
			want = []string{map[string]string{"198.51.100.9": "ip:198.51.100.9", "2001:db8:5::9": "ip:2001:db8:5::/64",
				"192.0.2.77": "ip:192.0.2.77"}[client]}
			moved++
		}
		// A junk field with a valid secret counts by the source address, or by an address further right that a proxy wrote.
		if wrote := a.wrote(); (!valid || good) && !slices.Equal(wrote, want) || got.status != http.StatusOK {
			t.Fatalf("seed %d, combination %d: %s, %s, valid secret %t, good field %t, header %.200q: got status %d, counted %q; want 200, %q", seed,
				i, host, believed, valid, good, fmt.Sprint(header), got.status, wrote, want)
		}
	}
	if moved < combinations/10 {
		t.Errorf("got %d requests by another address of %d, want more", moved, combinations)
	}
}

// Weir removes the secret, and an address without a valid one, from a request that it passes on itself.
func TestEnvironment_Serve_originSecret(t *testing.T) {
	for name, file := range map[string]string{"HTTP API": "http-api-anonymous.json", "function URL": "function-url-anonymous.json",
		"load balancer": "alb-anonymous.json", "REST API": "rest-proxy-anonymous.json"} {
		for _, valid := range []bool{true, false} {
			a := newTarget(t)
			a.fronted(t, "cloudfront")
			secret := "forged"
			if valid {
				secret = originSecret
			}
			event := sentBy(t, file, "", map[string]string{"weir-origin-secret": secret, "cloudfront-viewer-address": "198.51.100.99:1"})
			var got http.Header
			api := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
			if _, err := lambdahttp.NewHandler(a.Environment, api).Invoke(ctx, event); err != nil {
				t.Fatal(err)
			}
			if _, sent := got[contract.OriginSecretField]; sent || len(got) == 0 ||
				(got.Get(contract.CloudFrontAddressField) == "198.51.100.99:1") != valid {
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
			if err := json.Unmarshal(passed, &members); err != nil || bytes.Contains(passed, []byte(secret)) ||
				bytes.Contains(passed, []byte("198.51.100.99")) != valid || len(members.Headers)+len(members.MultiHeaders) == 0 {
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

// A request without the secret, and one without an address, are counted as such.
func TestEnvironment_addressNotFound(t *testing.T) {
	a := newTarget(t)
	var log bytes.Buffer
	a.Recorder = telemetry.New(&log, "test", nil)
	a.fronted(t, "cloudfront")
	for secret, field := range map[string]string{"": "203.0.113.9:1", originSecret: "unknown", secretBefore: "203.0.113.9:1"} {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/search", http.NoBody)
		r.Header.Set(contract.OriginSecretField, secret)
		r.Header.Set(contract.CloudFrontAddressField, field)
		a.Serve(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), r)
	}
	a.Recorder.FlushAll(noon.Add(time.Minute))
	if got := log.String(); strings.Count(got, `"AddressesNotFound":1`)+2*strings.Count(got, `"AddressesNotFound":2`) != 2 ||
		strings.Contains(got, originSecret) {
		t.Errorf("metrics: got %s, want two addresses that were not found, and no secret", got)
	}
}

// Behind a distribution, an admitted answer has a Cache-Control, so that CloudFront gives it to no other client that waits
// for the same path. An API can set its own.
func TestEnvironment_Serve_uncollapsed(t *testing.T) {
	for name, file := range map[string]string{"HTTP API": "http-api-anonymous.json", "load balancer": "alb-anonymous.json",
		"REST API": "rest-proxy-anonymous.json"} {
		for own, want := range map[string]string{"": "private, no-store", "max-age=5": "max-age=5"} {
			for _, fronted := range []bool{true, false} {
				a := newTarget(t)
				if fronted {
					a.fronted(t, "cloudfront")
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
					answered = a.Answered(storetest.Must(json.Marshal(map[string]any{"statusCode": 200, "headers": fields})))
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
