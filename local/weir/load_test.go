package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/edge"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/load"
)

// refusingServer admits the first three requests of each user and refuses all later ones. seen
// counts the requests by user.
func refusingServer(t *testing.T) (url string, seen map[string]int, mu *sync.Mutex) {
	t.Helper()
	seen, mu = map[string]int{}, &sync.Mutex{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		user := strings.Join([]string{r.Method, r.Header.Get("Authorization"), r.Header.Get("X-Extra"), string(body)}, "|")
		if seen[user]++; seen[user] > 3 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, seen, mu
}

func TestLoad(t *testing.T) {
	checkouttest.Scratch(t)
	url, seen, _ := refusingServer(t)
	code, out, errs := weir(t, "load", url, "--requests", "100", "--method", "POST", "--header", "X-Extra: a b", "--body", "text", "--users", "4", "--tier", "paid", "--json")
	var m measured
	if err := json.Unmarshal([]byte(out), &m); err != nil || code != 0 || errs != "" {
		t.Fatalf("got exit %d, error %v, output %q, stderr %q, want exit 0 and JSON", code, err, out, errs)
	}
	if m.URL != url || m.Requests != 100 || m.Allowed != 12 || m.Refused != 88 || m.Statuses[200] != 12 || m.Wire != nil || len(seen) != 4 {
		t.Errorf("result: got %+v for %d users, want 12 allowed and 88 refused requests of 4 users", m, len(seen))
	}
	for user, n := range seen {
		if n != 25 || !strings.HasPrefix(user, "POST|Bearer ey") || !strings.HasSuffix(user, "|a b|text") {
			t.Errorf("requests of a user: got %d of %s, want 25 with the method, the header and the body", n, user)
		}
	}
	t.Setenv(tokenVariable, "secret")
	code, out, _ = weir(t, "load", url, "--requests", "5", "--clients", "1")
	for _, want := range []string{url + ": 5 requests in ", "allowed 3 (", "refused 2 (", "answers: 200: 3, 429: 2\n", "p99.9", "#"} {
		if !strings.Contains(out, want) {
			t.Errorf("output: got %s, want %q in it", out, want)
		}
	}
	if code != 0 || seen["GET|Bearer secret||"] != 5 || strings.Contains(out, "secret") {
		t.Errorf("got exit %d, users %v, output %s, want exit 0, 5 requests with the token, and no token in the output", code, seen, out)
	}
}

// A refusal at the edge counts apart from one by a function.
func TestLoad_edge(t *testing.T) {
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1)%5 > 1 {
			w.Header().Set(edge.AnsweredField, "refused")
		}
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	_, out, _ := weir(t, "load", server.URL, "--requests", "5", "--json")
	var m measured
	if err := json.Unmarshal([]byte(out), &m); err != nil || m.Refused != 5 || m.AtEdge != 3 {
		t.Errorf("got %d refused and %d at the edge, error %v, want 5 and 3", m.Refused, m.AtEdge, err)
	}
	if _, out, _ = weir(t, "load", server.URL, "--requests", "5"); !strings.Contains(out, "refused at the edge, in front of the API: 3; the functions decided 2\n") {
		t.Errorf("got %s, want a line about the edge", out)
	}
}

// A 429 of a stage's throttle, of a REST API or an HTTP API, counts apart from a 429 of a limit.
func TestLoad_throttled(t *testing.T) {
	for body, want := range map[string]int64{
		`{"status":429,"error":"throttled","message":"The API as a whole has too many requests."}`: 5,
		`{"message":"Too Many Requests"}`:                               5,
		`{"error":"rate_limit_exceeded","message":"Too Many Requests"}`: 0,
		"": 0,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, body)
		}))
		_, out, _ := weir(t, "load", server.URL, "--requests", "5", "--json")
		var m measured
		if err := json.Unmarshal([]byte(out), &m); err != nil || m.Refused != 5 || m.Throttled != want {
			t.Errorf("%s: got %d refused and %d throttled, error %v, want 5 and %d", body, m.Refused, m.Throttled, err, want)
		}
		_, out, _ = weir(t, "load", server.URL, "--requests", "5")
		if strings.Contains(out, "refused by the throttle of the stage, and not by a limit: 5\n") != (want > 0) {
			t.Errorf("%s: got %s, want a line about the throttle: %t", body, out, want > 0)
		}
		server.Close()
	}
}

// --header Host sets the host of the request. If the percentiles include requests without an
// answer, the output has a note.
func TestLoad_hostAndUnanswered(t *testing.T) {
	var hosts sync.Map
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { hosts.Store(r.Host, true) }))
	defer server.Close()
	code, out, errs := weir(t, "load", server.URL, "--requests", "1", "--header", "host: api.example")
	if _, ok := hosts.Load("api.example"); code != 0 || !ok || strings.Contains(out, "at least") {
		t.Errorf("got exit %d, output %s %s, want exit 0 and the host api.example", code, out, errs)
	}
	var b strings.Builder
	m := measured{Result: load.Result{UnderWay: 2, NotSent: 3, Histogram: []load.Bar{{UpTo: 1, Count: 5}}, Latencies: map[string]load.Latency{load.All: {}}}}
	if err := m.print(&b, false); err != nil || !strings.Contains(b.String(), "\nthe row all has lower bounds: 5 requests without an answer count with the time that they waited\n\n") {
		t.Errorf("output: got error %v, text %s, want the note about lower bounds", err, b.String())
	}
}

// With --polite, the result has no refusals. The output lists the refusals that were followed by a
// retry.
func TestLoad_polite(t *testing.T) {
	refused := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !refused {
			refused = true
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()
	code, out, _ := weir(t, "load", server.URL, "--requests", "3", "--clients", "1", "--polite", "--json")
	var m measured
	if err := json.Unmarshal([]byte(out), &m); err != nil || code != 0 || m.Allowed != 3 || m.Refused != 0 || m.Wire[429] != 1 || m.Wire[200] != 3 {
		t.Errorf("got exit %d, error %v, output %s, want 3 allowed, 0 refused and one retried refusal", code, err, out)
	}
}

// An interrupt ends weir load at once. It prints the measurements so far.
func TestLoad_interrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if n++; n == 4 {
			cancel()
		}
	}))
	defer server.Close()
	var out, errs bytes.Buffer
	if code := command.Execute(ctx, rootCommand(), []string{"load", server.URL, "--clients", "1", "--duration", "10m", "--requests", "1000000"}, &out, &errs); code != 130 || !strings.Contains(out.String(), ": 4 requests in ") || errs.Len() > 0 {
		t.Errorf("got exit %d, output %q, stderr %q, want exit 130 and the result of 4 requests", code, &out, &errs)
	}
}

// weir load rejects another host without --host-allowed, and a value above its maximum.
func TestLoad_bounds(t *testing.T) {
	const url = "http://127.0.0.1:1/"
	for want, args := range map[string][]string{
		"weir.invalid is not this machine; if the host is yours, add --host-allowed weir.invalid": {"http://weir.invalid/"},
		"192.0.2.1 is not this machine; if the host is yours, add --host-allowed 192.0.2.1":       {"http://192.0.2.1/"},
		"127.0.0.1.weir.invalid is not this machine":                                              {"http://127.0.0.1.weir.invalid/", "--host-allowed", "weir.invalid"},
		"--users and --tier: the host is not this machine":                                        {"http://weir.invalid/", "--host-allowed", "weir.invalid", "--users", "2"},
		`got "127.0.0.1:8080", want a URL such as`:                                                {"127.0.0.1:8080"},
		`got "ftp://127.0.0.1", want a URL such as`:                                               {"ftp://127.0.0.1"},
		"--rate: got 100001, want 0, or 0.01 to 100000":                                           {url, "--rate", "100001"},
		"--rate: got -1, want 0, or 0.01 to 100000":                                               {url, "--rate", "-1"},
		"--rate: got NaN, want":                                                                   {url, "--rate", "NaN"},
		"--clients: got 0, want 1 to 1000":                                                        {url, "--clients", "0"},
		"--clients: got 1001, want 1 to 1000":                                                     {url, "--clients", "1001"},
		"--requests: got 1000001, want 1 to 1000000":                                              {url, "--requests", "1000001"},
		"--duration: got 10m0.001s, want 1ms to 10m0s":                                            {url, "--duration", "600001ms"},
		"--users: got 10001, want 0 to 10000":                                                     {url, "--users", "10001"},
		"--poisson: requires --rate":                                                              {url, "--poisson"},
		"--header: want name: value":                                                              {url, "--header", "secret"},
		`net/http: invalid method "G T"`:                                                          {url, "--method", "G T"},
	} {
		if code, out, errs := weir(t, append([]string{"load"}, args...)...); code != 2 || out != "" || !strings.HasPrefix(errs, "weir: "+want) || strings.Count(errs, "\n") != 2 {
			t.Errorf("%v: exit %d, got %q, want %q", args, code, errs, want)
		}
	}
	code, out, _ := weir(t, "load", url, "--requests", "2", "--duration", "10s")
	if code != 1 || !strings.Contains(out, "answers: none\nwithout an answer: 2, the first: dial tcp") {
		t.Errorf("no server: got exit %d, output %q, want exit 1 and 2 requests without an answer", code, out)
	}
}

// weir load does not follow redirects and does not use proxies.
func TestLoad_redirect(t *testing.T) {
	strangers := 0
	stranger := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strangers++ }))
	defer stranger.Close()
	server := httptest.NewServer(http.RedirectHandler(stranger.URL, http.StatusFound))
	defer server.Close()
	code, out, _ := weir(t, "load", server.URL, "--requests", "10", "--rate", "1000", "--poisson")
	if code != 0 || strangers != 0 || !strings.Contains(out, "answers: 302: 10\n") {
		t.Errorf("got exit %d, %d requests to the target of the redirect, output %s, want exit 0, 0 requests to the target and 10 answers with 302", code, strangers, out)
	}
	l := &loader{method: "GET", clients: 1}
	if err := l.prepare(t.Context(), server.URL); err != nil {
		t.Fatal(err)
	}
	if l.wire.base.(*http.Transport).Proxy != nil {
		t.Error("transport: got a proxy function, want none")
	}
}

func TestProgress(t *testing.T) {
	var m measured
	m.Took, m.Requests, m.Allowed, m.Refused, m.Other, m.Failed, m.UnderWay = 2600*time.Millisecond, 10, 4, 3, 1, 1, 1
	if got, want := progress(m.Result), "3s: 10 requests, allowed 4, refused 3, other 2, under way 1"; got != want {
		t.Errorf("progress: got %q, want %q", got, want)
	}
}

// A load that gets no answer ends after a hundred refused connections.
func TestLoad_closedPort(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	code, out, errs := weir(t, "load", server.URL, "--clients", "1", "--json")
	var m measured
	host := strings.TrimPrefix(server.URL, "http://")
	if err := json.Unmarshal([]byte(out), &m); err != nil || code != 1 || m.Requests < 100 || m.Requests > 110 || errs != "weir: "+host+" refused the first 100 connections: no server listens there\n" {
		t.Errorf("got exit %d, %d requests, error %v, stderr %q; want exit 1 soon after 100 requests", code, m.Requests, err, errs)
	}
}
