package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command/commandtest"
	"github.com/weir-limits/weir/local/servers"
)

// federation are the gateways of three regions.
type federation struct {
	commandtest.Clock
	t    *testing.T
	rest []*httptest.Server
}

func newFederation(t *testing.T, store string) *federation {
	t.Helper()
	if variable := servers.Variables[store]; variable != "" {
		storetest.Server(t, store, variable)
	}
	f := &federation{t: t}
	f.Set(start)
	o := Options{API: sample.New, Rules: "../examples/regions.json", Store: store, Regions: 3, Out: io.Discard,
		Logger: slog.New(slog.DiscardHandler), Clock: f.Now, Namespace: checkouttest.Namespace()}
	o.Rules = absolute(o.Rules, "")
	checkouttest.Scratch(t)
	list, err := New(o).EachRegion()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		t.Cleanup(s.Close)
		rest, _ := commandtest.Serve(t, func(urls []string) ([]http.Handler, error) { return s.Open(t.Context(), urls) })
		f.rest = append(f.rest, rest)
	}
	return f
}

// admitted sends requests to a region, and returns how many of them it admits.
func (f *federation) admitted(region, requests int, token string) (n int) {
	f.t.Helper()
	for range requests {
		switch r := commandtest.Send(f.t, http.MethodGet, f.rest[region].URL+"/api/v1/search", token); {
		case r.StatusCode == http.StatusOK && r.Header.Get("X-RateLimit-Limit") == "90":
			n++
		case r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") == "":
			f.t.Errorf("region %d: got %s %v, want 200 with a limit of 90, or 429", region, r.Status, r.Header)
		}
	}
	return n
}

// post asks a question at the second region, and returns its answer.
func (f *federation) post(path, question string, status int) (s regionsState, text string) {
	f.t.Helper()
	request := storetest.Must(http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.rest[1].URL+path, strings.NewReader(question)))
	request.Header.Set("Content-Type", "application/json")
	r := commandtest.Do(f.t, request)
	if r.StatusCode != status {
		f.t.Fatalf("%s %s: got %s %s, want %d", path, question, r.Status, r.Text, status)
	}
	if err := json.Unmarshal([]byte(r.Text), &s); err != nil {
		f.t.Fatal(err)
	}
	return s, r.Text
}

// Three gateways together admit one limit. The state has their shares and transfers. A region that is cut off keeps its
// share, and gets more again when it is connected.
func TestServe_regions(t *testing.T) {
	for _, store := range []string{Memory, "dynamodb"} {
		t.Run(store, func(t *testing.T) {
			f := newFederation(t, store)
			token := storetest.Must(storetest.Must(checkout.Find()).Token("alice", "free", time.Until(start)+time.Hour, nil))
			if got, other := f.admitted(0, 92, token), f.admitted(1, 2, token); got != 90 || other != 0 {
				t.Fatalf("one busy region: got %d of 92 admitted, and %d of 2 in another region, want 90 and 0", got, other)
			}
			s, text := f.post(regionsPath, `{"subject":"user:alice"}`, http.StatusOK)
			want := []regionShare{
				{Region: "region-1", Base: 30, Moved: 60, Used: 90},
				{Region: "region-2", Base: 30, Moved: -30},
				{Region: "region-3", Base: 30, Moved: -30},
			}
			for i := range want {
				want[i].Subject, want[i].Limit, want[i].Rule = "user:alice", "search", "GET /api/v1/search"
			}
			if fmt.Sprint(s.Shares) != fmt.Sprint(want) || len(s.Regions) != 3 || s.Regions[2].URL != f.rest[2].URL || len(s.Transfers) < 2 ||
				s.Transfers[0].Problem != "" {
				t.Errorf("got %s, want the shares %+v, three regions and some transfers", text, want)
			}
			if recent, _ := f.post(regionsPath, `{"subject":""}`, http.StatusOK); fmt.Sprint(recent.Shares) != fmt.Sprint(want) {
				t.Errorf("without a subject: got %+v, want the shares of the last transfers", recent.Shares)
			}

			f.Wait(time.Minute)
			if s, _ := f.post(cutPath, `{"region":"region-3","cut":true}`, http.StatusOK); !s.Regions[2].Cut || s.Regions[0].Cut {
				t.Errorf("switch: got %+v, want region-3 cut off", s.Regions)
			}
			a, b, c := f.admitted(0, 70, token), f.admitted(1, 5, token), f.admitted(2, 35, token)
			if a+b != 60 || c != 30 {
				t.Errorf("region-3 is cut off: got %d, %d and %d admitted, want 60 in the first two, and 30", a, b, c)
			}
			if s, text := f.post(regionsPath, `{}`, http.StatusOK); !strings.Contains(text, "no answer of region-3") || len(s.Transfers) == 0 {
				t.Errorf("got %s, want transfers without an answer of region-3", text)
			}

			f.Wait(time.Minute)
			f.post(cutPath, `{"region":"region-3","cut":false}`, http.StatusOK)
			if got := f.admitted(2, 92, token); got != 90 {
				t.Errorf("after the cut: got %d of 92 admitted, want 90", got)
			}

			if _, text := f.post(cutPath, `{"region":"region-4","cut":true}`, http.StatusBadRequest); !strings.Contains(text,
				"want one of region-1, region-2, region-3") {
				t.Errorf("unknown region: got %s, want the names", text)
			}
			f.post(regionsPath, `{"subject":"alice"}`, http.StatusBadRequest)
		})
	}
}

// Another site cannot cut a region off.
func TestServe_regionsGuarded(t *testing.T) {
	f := newFederation(t, Memory)
	for name, value := range map[string]string{"Content-Type": "text/plain", "Sec-Fetch-Site": "cross-site"} {
		request := storetest.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, f.rest[0].URL+cutPath,
			strings.NewReader(`{"region":"region-1","cut":true}`)))
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set(name, value)
		if r := commandtest.Do(t, request); r.StatusCode < 400 {
			t.Errorf("%s: %s: got %s, want a refusal", name, value, r.Status)
		}
	}
	if s, _ := f.post(regionsPath, `{}`, http.StatusOK); s.Regions[0].Cut {
		t.Errorf("got %+v, want no region cut off", s.Regions)
	}
}

func TestServer_EachRegion(t *testing.T) {
	for want, o := range map[string]Options{
		"--regions: got --store redis": {Store: "redis"},
	} {
		o.Regions = 3
		if _, err := New(o).EachRegion(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
}
