package httpclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/httpclient"
)

// After a 429 the random waits are up to 1, 2, 4 and 8 s, in addition to Retry-After.
func TestTransport_backoff(t *testing.T) {
	for name, least := range map[string]time.Duration{"429": 0, "429 | Retry-After: 3": 3 * time.Second,
		"503 | Retry-After: 3": 3 * time.Second, "429 | Retry-After: 0": 0} {
		synctest.Test(t, func(t *testing.T) {
			const runs = 300
			shortest, longest := [4]time.Duration{}, [4]time.Duration{}
			for run := range runs {
				a := script(name, name, name, name, "200")
				if status, err := get(t, &httpclient.Transport{Base: a}, "http://api.test/"); status != 200 || err != nil || len(a.at) != 5 {
					t.Fatalf("%s: got %d, %v after %d requests, want 200 after 5", name, status, err, len(a.at))
				}
				for i := range 4 {
					wait := a.at[i+1].Sub(a.at[i]) - least
					if run == 0 {
						shortest[i] = wait
					}
					shortest[i], longest[i] = min(shortest[i], wait), max(longest[i], wait)
				}
			}
			for i := range 4 {
				most := time.Second << i
				if shortest[i] < 0 || shortest[i] > most/10 || longest[i] < most*9/10 || longest[i] >= most {
					t.Errorf("%s: wait %d: got %s to %s beyond Retry-After, want 0s to %s", name, i+1, shortest[i], longest[i], most)
				}
			}
		})
	}
}

// If a request must not be repeated, the Transport returns the refusal at once, with its body.
func TestTransport_notRepeated(t *testing.T) {
	for _, c := range []struct {
		name, first string
		request     func(*http.Request)
		transport   *httpclient.Transport
	}{
		{name: "no refusal", first: "500"},
		{name: "503 without a time", first: "503"},
		{name: "a body without GetBody", first: "429", request: func(r *http.Request) {
			r.Method, r.Body = "PUT",
				io.NopCloser(strings.NewReader("x"))
		}},
		{name: "503 to a method that is not idempotent", first: "503 | Retry-After: 1", request: func(r *http.Request) { r.Method = "POST" }},
		{name: "503 to a body that could be replayed", first: "503 | Retry-After: 1", request: func(r *http.Request) {
			r.Method, r.Body = "PATCH", io.NopCloser(strings.NewReader("x"))
			r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("x")), nil }
		}},
		{name: "no retries", first: "429", transport: &httpclient.Transport{Retries: -1}},
		{name: "a wait longer than the default MaxWait", first: "429 | Retry-After: 121"},
		{name: "a wait longer than MaxWait", first: "429 | Retry-After: 5", transport: &httpclient.Transport{MaxWait: 5 * time.Second}},
		{name: "Unix seconds in Retry-After", first: "429 | Retry-After: 1772625603"},
		{name: "a wait longer than the context", first: "429 | Retry-After: 2", request: func(r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
			context.AfterFunc(r.Context(), cancel)
			*r = *r.WithContext(ctx)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				a := script(c.first, "200")
				transport := &httpclient.Transport{}
				if c.transport != nil {
					transport = c.transport
				}
				transport.Base = a
				r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://api.test/", http.NoBody)
				r.GetBody = nil
				if c.request != nil {
					c.request(r)
				}
				begun := time.Now()
				answer, err := transport.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				content, err := io.ReadAll(answer.Body)
				if want := "answer " + c.first[:3]; string(content) != want || err != nil || len(a.at) != 1 || time.Since(begun) != 0 {
					t.Errorf("got %q, %v after %d requests in %s, want %q after one request in 0s", content, err, len(a.at), time.Since(begun), want)
				}
			})
		})
	}
}

// A repeated request has the whole body. The Transport reads and closes the bodies of refusals, so that connections
// can be reused.
func TestTransport_replay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := script("429 | Retry-After: 1", "503 | Retry-After: 1", "200")
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://api.test/", strings.NewReader("the body"))
		if status, err := do(&httpclient.Transport{Base: a}, r); status != 200 || err != nil {
			t.Fatal(status, err)
		}
		if !slices.Equal(a.bodies, []string{"the body", "the body", "the body"}) || len(a.open) != 0 {
			t.Errorf("got request bodies %q and %d open response bodies, want three whole bodies and 0", a.bodies, len(a.open))
		}
		r, _ = http.NewRequestWithContext(t.Context(), http.MethodPost, "http://api.test/other", strings.NewReader("x"))
		r.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("gone") }
		a.handler = script("429").handler
		if _, err := do(&httpclient.Transport{Base: a}, r); err == nil || err.Error() != "gone" || len(a.open) != 0 {
			t.Errorf("error of GetBody: got %v and %d open response bodies, want the error of GetBody and 0", err, len(a.open))
		}
	})
}

// After a 429 the API has done nothing, so any request may be repeated. After a 503 a request may be
// repeated if its method is idempotent or it has an Idempotency-Key.
func TestTransport_repeated(t *testing.T) {
	for _, c := range []struct{ method, body, key, first string }{
		{"POST", "", "", "429"},
		{"POST", "x", "", "429"},
		{"PATCH", "x", "", "429"},
		{"DELETE", "", "", "503 | Retry-After: 1"},
		{"PUT", "x", "", "503 | Retry-After: 1"},
		{"POST", "", `"k"`, "503 | Retry-After: 1"},
		{"POST", "x", `"k"`, "503 | Retry-After: 1"},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := script(c.first, "200")
			r, _ := http.NewRequestWithContext(t.Context(), c.method, "http://api.test/", strings.NewReader(c.body))
			if c.key != "" {
				r.Header.Set("Idempotency-Key", c.key)
			}
			if status, err := do(&httpclient.Transport{Base: a}, r); status != 200 || !slices.Equal(a.bodies, []string{c.body, c.body}) {
				t.Errorf("%+v: got %d, %v, bodies %q, want 200 and two bodies %q", c, status, err, a.bodies, c.body)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // a request without a body is repeated without GetBody
		a := script("429", "200")
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://api.test/", http.NoBody)
		r.GetBody = nil
		if status, err := do(&httpclient.Transport{Base: a}, r); status != 200 {
			t.Error(status, err)
		}
	})
}

// If the context ends, the wait ends and the body of the request is closed.
func TestTransport_context(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := script("429 | Retry-After: 30")
		transport := &httpclient.Transport{Base: a}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		bodies := [3]closed{}
		// each of the three requests waits at another place: before its repetition, for its turn, and before the quota is known
		for i := range bodies {
			all.Go(func() {
				r, _ := http.NewRequestWithContext(ctx, http.MethodPut, "http://api.test/", &bodies[i])
				r.GetBody = func() (io.ReadCloser, error) { return http.NoBody, nil }
				if _, err := do(transport, r); !errors.Is(err, context.Canceled) {
					t.Errorf("request %d: got error %v, want context.Canceled", i, err)
				}
			})
			synctest.Wait()
		}
		time.Sleep(time.Second)
		begun := time.Now()
		cancel()
		all.Wait()
		if time.Since(begun) != 0 || len(a.at) != 1 || len(a.open) != 0 || bodies != [3]closed{true, true, true} {
			t.Errorf("after %s: got %d requests, %d open response bodies, closed request bodies: %v, want 1 request, 0 open and all closed after 0s",
				time.Since(begun), len(a.at), len(a.open), bodies)
		}
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://other.test/", http.NoBody)
		if _, err := do(transport, r); !errors.Is(err, context.Canceled) || len(a.at) != 1 {
			t.Errorf("a context that has ended: got %v, %d requests, want context.Canceled and 1", err, len(a.at))
		}
	})
}

// closed is the body of a request. It records whether it was closed.
type closed bool

func (*closed) Read([]byte) (int, error) { return 0, io.EOF }
func (c *closed) Close() error           { *c = true; return nil }

// If the context ends when the response arrives, the Transport closes the response and returns an
// error.
func TestTransport_answerTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		a := &api{handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel() })}
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://api.test/", http.NoBody)
		if _, err := (&httpclient.Transport{Base: a}).RoundTrip(r); !errors.Is(err, context.Canceled) || len(a.open) != 0 {
			t.Errorf("got %v and %d open response bodies, want context.Canceled and 0", err, len(a.open))
		}
	})
}

// While one request waits after a refusal, the other requests wait too. After the wait, the Transport
// first sends one request as a probe.
func TestTransport_sharedWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := script("429 | Retry-After: 10", "200")
		a.latency = 100 * time.Millisecond
		transport := &httpclient.Transport{Base: a}
		var all sync.WaitGroup
		begun := time.Now()
		for range 20 {
			all.Go(func() {
				if status, err := get(t, transport, "http://api.test/"); status != 200 {
					t.Error(status, err)
				}
			})
		}
		all.Wait()
		if len(a.at) != 21 || a.at[1].Sub(begun) != 10*time.Second+a.latency || a.at[2].Sub(a.at[1]) < a.latency {
			t.Errorf("got %d requests, the second after %s, the third %s later, want 21, %s and %s", len(a.at), a.at[1].Sub(begun),
				a.at[2].Sub(a.at[1]), 10*time.Second+a.latency, a.latency)
		}
	})
}

// After Refusals consecutive refusals the Transport sends nothing until it may try the API again.
// Then it sends one request as a probe, and the response closes the breaker or opens it again.
func TestTransport_breaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := script("429 | Retry-After: 10", "429 | Retry-After: 10", "429 | Retry-After: 10", "429 | Retry-After: 7", "200")
		a.latency = 100 * time.Millisecond
		transport := &httpclient.Transport{Base: a, Refusals: 3, Retries: -1}
		refusal := func(want int, wait time.Duration) {
			t.Helper()
			var e *httpclient.WaitError
			if _, err := get(t, transport, "http://api.test/"); !errors.As(err, &e) || *e != (httpclient.WaitError{Host: "api.test", Wait: wait,
				Refusals: 3}) || len(a.at) != want {
				t.Errorf("got %v after %d requests, want %d and a wait of %s", err, len(a.at), want, wait)
			}
		}
		for i := range 3 {
			if status, err := get(t, transport, "http://api.test/"); status != 429 || len(a.at) != i+1 {
				t.Fatal(status, err)
			}
		}
		refusal(3, 10*time.Second)
		time.Sleep(10*time.Second - 1)
		refusal(3, 1)
		time.Sleep(time.Nanosecond)
		a.latency = 3 * time.Second
		var probe sync.WaitGroup
		probe.Go(func() {
			if status, err := get(t, transport, "http://api.test/"); status != 429 {
				t.Error(status, err)
			}
		})
		synctest.Wait()
		refusal(4, 20*time.Millisecond) // no second request is sent while the probe is in flight
		time.Sleep(2 * time.Second)
		refusal(4, time.Second)
		probe.Wait()
		refusal(4, 7*time.Second)
		time.Sleep(7 * time.Second)
		for range 5 {
			if status, err := get(t, transport, "http://api.test/"); status != 200 {
				t.Error(status, err)
			}
		}
		if len(a.at) != 9 || len(a.open) != 0 {
			t.Errorf("got %d requests and %d open response bodies, want 9 and 0", len(a.at), len(a.open))
		}
	})
}

// A probe without a response leaves the breaker open. The next request is a probe too.
func TestTransport_probeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := script("429 | Retry-After: 5", "200")
		transport := &httpclient.Transport{Base: a, Refusals: 1, Retries: -1}
		if status, err := get(t, transport, "http://api.test/"); status != 429 {
			t.Fatal(status, err)
		}
		time.Sleep(5 * time.Second)
		a.latency = time.Second
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://api.test/", http.NoBody)
		if _, err := do(transport, r); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		for range 2 {
			if status, err := get(t, transport, "http://api.test/"); status != 200 {
				t.Error(status, err)
			}
		}
	})
}

// The breaker counts the refusals of requests that were in flight together as one, so that a burst does
// not open it.
func TestTransport_burst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := script("200", "429 | Retry-After: 1", "429 | Retry-After: 1", "429 | Retry-After: 1", "429 | Retry-After: 1", "200")
		a.latency = 100 * time.Millisecond
		transport := &httpclient.Transport{Base: a, Refusals: 2}
		if status, err := get(t, transport, "http://api.test/"); status != 200 {
			t.Fatal(status, err)
		}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if status, err := get(t, transport, "http://api.test/"); status != 200 {
					t.Error(status, err)
				}
			})
		}
		time.Sleep(300 * time.Millisecond)
		all.Go(func() { // this request waits and then succeeds
			if status, err := get(t, transport, "http://api.test/"); status != 200 {
				t.Error(status, err)
			}
		})
		all.Wait()
		if len(a.at) != 16 || a.at[11].Sub(a.at[1]) < time.Second {
			t.Errorf("got %d requests, want 1, 10, and 5 at least a second later: %v", len(a.at), a.at)
		}
	})
}

// If a request may be repeated at once, the Transport repeats it even if the clock has not advanced.
func TestTransport_retryAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := script("429 | Retry-After: 0", "429 | Retry-After: 0", "429 | Retry-After: 0", "200")
		transport := &httpclient.Transport{Base: a, Refusals: 1, Retries: -1}
		for i, want := range []int{429, 429, 429, 200, 200} {
			if status, err := get(t, transport, "http://api.test/"); status != want {
				t.Errorf("request %d: got %d, %v, want %d", i, status, err, want)
			}
		}
	})
}

// A request fails at once if a wait cannot help, even if other requests are in flight.
func TestTransport_failsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := script("200", "200", "429 | Retry-After: 60")
		transport := &httpclient.Transport{Base: a, MaxWait: 10 * time.Second}
		if status, err := get(t, transport, "http://api.test/"); status != 200 {
			t.Fatal(status, err)
		}
		a.latency = 5 * time.Second
		var slow sync.WaitGroup
		slow.Go(func() {
			if status, err := get(t, transport, "http://api.test/"); status != 429 { // the response to this request arrives last
				t.Error(status, err)
			}
		})
		synctest.Wait()
		a.latency = 0
		for range 2 {
			if status, err := get(t, transport, "http://api.test/"); status == 0 {
				t.Error(err)
			}
		}
		begun := time.Now()
		if _, err := get(t, transport, "http://api.test/"); err == nil ||
			err.Error() != "httpclient: the quota of api.test is exhausted; retry in 1m0s" || time.Since(begun) != 0 {
			t.Errorf("got %v after %s, want a WaitError after 0s", err, time.Since(begun))
		}
		slow.Wait()
	})
}

// The transport spreads the last quarter of a quota over the time until the reset.
func TestTransport_spread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const window = time.Minute
		a := limited(t, 0, algo.Rate{Algorithm: algo.FixedWindow, Requests: 20, Window: window})
		transport := &httpclient.Transport{Base: a}
		begun := time.Now()
		for range 45 {
			if status, err := get(t, transport, "http://api.test/"); status != 204 {
				t.Fatal(status, err)
			}
		}
		if a.status[429] != 0 || len(a.at) != 45 {
			t.Errorf("statuses: got %v, want 45 requests and no 429", a.status)
		}
		for i, at := range a.at {
			minute, n := int(at.Sub(begun)/window), i%20
			if minute != i/20 {
				t.Fatalf("request %d: got minute %d, want %d", i, minute, i/20)
			}
			// The Transport sends 15 requests at once. It spreads 5 over the rest of the minute,
			// about 10 s apart, because the reset is in whole seconds.
			if since := at.Sub(begun) % window; n < 15 && since > time.Second || n >= 15 && (since < time.Duration(n-14)*9*time.Second ||
				since > time.Duration(n-14)*10*time.Second+time.Second) {
				t.Errorf("request %d: got %s after the start of its window, want the first 15 at once and the others about 10 s apart", n, since)
			}
		}
	})
}

// Many clients call a Gate at once. The Gate never refuses a request of a polite client, and refuses
// most requests of other clients. The polite clients still exhaust the quota.
func TestTransport_manyClients(t *testing.T) {
	const clients, each = 50, 4 // 200 requests on a limit of 100 a minute with a burst of 20
	rate := algo.Rate{Algorithm: algo.TokenBucket, Requests: 100, Window: time.Minute, Burst: 20}
	crowd := func(t *testing.T, rt http.RoundTripper) (passed int, took time.Duration) {
		var all sync.WaitGroup
		var mu sync.Mutex
		begun := time.Now()
		for range clients {
			all.Go(func() {
				for range each {
					if status, err := get(t, rt, "http://api.test/items"); status == 204 && err == nil {
						mu.Lock()
						passed++
						mu.Unlock()
					}
				}
			})
		}
		all.Wait()
		return passed, time.Since(begun)
	}
	synctest.Test(t, func(t *testing.T) {
		a := limited(t, 30*time.Millisecond, rate)
		passed, took := crowd(t, &httpclient.Transport{Base: a, MaxWait: 10 * time.Minute})
		if passed != clients*each || a.status[429] != 0 {
			t.Errorf("httpclient: got %d allowed requests, statuses %v, want %d and no 429", passed, a.status, clients*each)
		}
		// the limit admits 20 requests at once and then one every 0.6 s
		if least := 180 * 600 * time.Millisecond; took < least || took > least*13/10 {
			t.Errorf("httpclient: got a duration of %s, want at least %s and at most 30 %% more", took, least)
		}
		if len(a.open) != 0 {
			t.Errorf("got %d open response bodies, want 0", len(a.open))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		a := limited(t, 30*time.Millisecond, rate)
		if passed, _ := crowd(t, a); passed != 20 || a.status[429] != 180 {
			t.Errorf("rude: got %d allowed requests, statuses %v, want 20 and 180 with 429", passed, a.status)
		}
	})
}

// Requests of different quotas do not wait for each other. Quotas differ by host, credential, policy
// and partition.
func TestTransport_separateQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			line := "200"
			switch {
			case r.URL.Path == "/search":
				line = `429 | Retry-After: 60 | RateLimit-Policy: "search";q=5;w=60 | RateLimit: "search";r=0;t=60`
			case r.URL.Path == "/data":
				line = `200 | RateLimit-Policy: "data";q=9;w=60 | RateLimit: "data";r=9;t=60`
			case strings.HasPrefix(r.URL.Path, "/mine/"):
				line = `429 | Retry-After: 60 | RateLimit: "all";r=0;t=60;pk=:bWluZQ==:`
			case strings.HasPrefix(r.URL.Path, "/yours/"):
				line = `200 | RateLimit: "all";r=9;t=60;pk=:eW91cnM=:`
			case r.Header.Get("Authorization") == "a", r.Header.Get("X-Api-Key") == "k", r.Method == http.MethodPut:
				line = "429 | Retry-After: 60"
			}
			answer(w, line)
		})}
		transport := &httpclient.Transport{Base: a, Retries: -1, MaxWait: time.Second}
		begun := time.Now()
		for i, c := range []struct {
			method, url, name, value string
			want                     int
		}{
			{"GET", "http://api.test/data", "", "", 200},
			{"GET", "http://api.test/search", "", "", 429},
			{"GET", "http://api.test/search", "", "", 0},
			{"GET", "http://api.test/data", "", "", 200},
			{"GET", "http://api.test/mine/1", "", "", 429},
			{"GET", "http://api.test/mine/2", "", "", 0}, // shares the quota of the other path in its folder
			{"GET", "http://api.test/yours/1", "", "", 200},
			{"GET", "http://api.test/yours/2", "", "", 200},
			{"GET", "http://api.test/", "Authorization", "a", 429},
			{"GET", "http://api.test/", "Authorization", "a", 0},
			{"GET", "http://api.test/", "Authorization", "b", 200},
			{"GET", "http://api.test/", "X-Api-Key", "k", 429},
			{"GET", "http://api.test/", "X-Api-Key", "k", 0},
			{"GET", "http://api.test/", "X-Api-Key", "l", 200},
			{"PUT", "http://other.test/", "", "", 429},
			{"PUT", "http://other.test/", "", "", 0},
			{"PUT", "http://third.test/", "", "", 429},
		} {
			r, _ := http.NewRequestWithContext(t.Context(), c.method, c.url, http.NoBody)
			r.Header.Set(c.name, c.value)
			status, err := do(transport, r)
			if _, waits := errors.AsType[*httpclient.WaitError](err); status != c.want || waits != (c.want == 0) {
				t.Errorf("request %d: %s %s %s: got %d, %v, want %d", i, c.method, c.url, c.value, status, err, c.want)
			}
		}
		if time.Since(begun) != 0 {
			t.Errorf("waits: got %s, want none", time.Since(begun))
		}
	})
}

// A request waits at most half of the time until its deadline, so that time remains for the response.
func TestTransport_halfTheContext(t *testing.T) {
	for lives, sent := range map[time.Duration]bool{9 * time.Second: false, 11 * time.Second: true} {
		synctest.Test(t, func(t *testing.T) {
			a := script("429 | Retry-After: 5", "200")
			transport := &httpclient.Transport{Base: a, Retries: -1}
			if status, err := get(t, transport, "http://api.test/"); status != 429 {
				t.Fatal(status, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), lives)
			defer cancel()
			r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://api.test/", http.NoBody)
			begun := time.Now()
			status, err := do(transport, r)
			if _, waits := errors.AsType[*httpclient.WaitError](err); waits == sent || (status == 200) != sent || !sent && time.Since(begun) != 0 {
				t.Errorf("%s: got %d, %v after %s, want sent %t", lives, status, err, time.Since(begun), sent)
			}
		})
	}
}

// If a quota is exhausted for an hour, the Transport sends a probe after half of MaxWait, because some
// quotas are full earlier than announced.
func TestTransport_probesHalfway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := script("200 | X-RateLimit-Limit: 60 | X-RateLimit-Remaining: 0 | X-RateLimit-Reset: 3600", "200")
		transport := &httpclient.Transport{Base: a}
		for range 2 {
			if status, err := get(t, transport, "http://api.test/"); status != 200 {
				t.Fatal(status, err)
			}
		}
		if wait := a.at[1].Sub(a.at[0]); wait != time.Minute {
			t.Errorf("probe: got a wait of %s, want 1 minute", wait)
		}
	})
}

// The Transport reads a short body of a refusal before it repeats the request, so that it can reuse
// the connection. It does not read a long body.
func TestTransport_shortBody(t *testing.T) {
	for length, unread := range map[int64]int{9: 0, 64 << 10: 0, 64<<10 + 1: 64<<10 + 1, -1: 9} {
		synctest.Test(t, func(t *testing.T) {
			refusal := strings.NewReader(strings.Repeat("x", int(max(length, 9))))
			n := 0
			base := roundTripper(func(*http.Request) (*http.Response, error) {
				n++
				if n == 1 {
					return &http.Response{StatusCode: http.StatusTooManyRequests, ContentLength: length, Body: io.NopCloser(refusal)}, nil
				}
				return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
			})
			if status, err := get(t, &httpclient.Transport{Base: base}, "http://api.test/"); status != 200 || refusal.Len() != unread {
				t.Errorf("body of %d bytes: got status %d, %v and %d bytes unread, want 200 and %d", length, status, err, refusal.Len(), unread)
			}
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The size of the book is bounded, for any names that an API sends.
func TestTransport_bounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		a := &api{handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			n++
			answer(w, fmt.Sprintf(`200 | RateLimit: "p%d";r=1000;t=1`, n))
		})}
		transport := &httpclient.Transport{Base: a}
		for i := range 10_000 {
			if status, err := get(t, transport, fmt.Sprintf("http://h%d.test/%d", i%5000, i)); status != 200 {
				t.Fatal(status, err)
			}
		}
		if quotas, routes := transport.Remembered(); quotas != 1024 || routes != 8192 {
			t.Errorf("got %d quotas and %d routes, want 1024 and 8192", quotas, routes)
		}
	})
}

// CloseIdleConnections of a client calls CloseIdleConnections of Base.
func TestTransport_CloseIdleConnections(t *testing.T) {
	base := &idle{}
	client := &http.Client{Transport: &httpclient.Transport{Base: base}}
	client.CloseIdleConnections()
	if base.closed != 1 {
		t.Errorf("CloseIdleConnections of Base: got %d calls, want 1", base.closed)
	}
	(&httpclient.Transport{Base: script("200")}).CloseIdleConnections() // this Base has no CloseIdleConnections
}

type idle struct {
	http.RoundTripper
	closed int
}

func (i *idle) CloseIdleConnections() { i.closed++ }
