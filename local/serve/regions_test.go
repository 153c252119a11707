package serve

import (
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
		rest, _ := commandtest.Serve(t, func([]string) ([]http.Handler, error) { return s.Open(t.Context()) })
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

// switched cuts a region off, or connects it, at the second one, with further header fields.
func (f *federation) switched(region string, cut bool, fields map[string]string) commandtest.Reply {
	f.t.Helper()
	request := storetest.Must(http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.rest[1].URL+cutPath,
		strings.NewReader(fmt.Sprintf(`{"region":%q,"cut":%t}`, region, cut))))
	request.Header.Set("Content-Type", "application/json")
	for name, value := range fields {
		request.Header.Set(name, value)
	}
	return commandtest.Do(f.t, request)
}

// minute sends requests to the regions in a minute, and returns how many each of them admits: together 90. A busy machine
// can answer a call between two regions too late, so that its share is lost for this minute: then the next one counts.
func (f *federation) minute(token string, requests ...int) (got [3]int) {
	f.t.Helper()
	for range 3 {
		total := 0
		for region, n := range requests {
			got[region] = f.admitted(region, n, token)
			total += got[region]
		}
		if total > 90 {
			f.t.Errorf("got %v admitted, want at most 90", got)
		}
		if total >= 90 {
			return got
		}
		f.Wait(time.Minute)
	}
	f.t.Errorf("got %v admitted in the last of three minutes, want 90", got)
	return got
}

// Three gateways together admit one limit. A region that is cut off keeps its share, and gets more again when it is
// connected. Another site cannot cut it off.
func TestServe_regions(t *testing.T) {
	for _, store := range []string{Memory, "dynamodb"} {
		t.Run(store, func(t *testing.T) {
			f := newFederation(t, store)
			token := storetest.Must(storetest.Must(checkout.Find()).Token("alice", "free", time.Until(start)+time.Hour, nil))
			if got := f.minute(token, 92, 2); got[0] != 90 {
				t.Fatalf("one busy region: got %v admitted, want 90 in the first", got)
			}
			for name, value := range map[string]string{"Content-Type": "text/plain", "Sec-Fetch-Site": "cross-site"} {
				if r := f.switched("region-1", true, map[string]string{name: value}); r.StatusCode < 400 {
					t.Errorf("%s: %s: got %s, want a refusal", name, value, r.Status)
				}
			}
			f.Wait(time.Minute)
			if r := f.switched("region-3", true, nil); r.StatusCode != http.StatusOK {
				t.Errorf("switch: got %s %s, want 200", r.Status, r.Text)
			}
			if got := f.minute(token, 70, 5, 35); got[2] != 30 {
				t.Errorf("region-3 is cut off: got %v admitted, want 30 in it", got)
			}
			f.Wait(time.Minute)
			f.switched("region-3", false, nil)
			f.minute(token, 0, 0, 92)
			if r := f.switched("region-4", true, nil); !strings.Contains(r.Text, "want one of region-1, region-2, region-3") {
				t.Errorf("unknown region: got %s, want the names", r.Text)
			}
		})
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
