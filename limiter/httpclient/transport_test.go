package httpclient_test

import (
	"context"
	"errors"
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
		bodies := [2]closed{}
		// the first request waits for its repetition, and the second one for its turn
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
		if time.Since(begun) != 0 || len(a.at) != 1 || len(a.open) != 0 || bodies != [2]closed{true, true} {
			t.Errorf("after %s: got %d requests, %d open response bodies, closed request bodies: %v, want 1 request, 0 open and all closed after 0s",
				time.Since(begun), len(a.at), len(a.open), bodies)
		}
	})
}

// closed is the body of a request. It records whether it was closed.
type closed bool

func (*closed) Read([]byte) (int, error) { return 0, io.EOF }
func (c *closed) Close() error           { *c = true; return nil }

// While one request waits after a refusal, the other requests of its quota wait too. They do not return all at once.
func TestTransport_sharedWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := script("429 | Retry-After: 10", "200")
		transport := &httpclient.Transport{Base: a}
		var all sync.WaitGroup
		begun := time.Now()
		for range 200 {
			all.Go(func() {
				if status, err := get(t, transport, "http://api.test/"); status != 200 {
					t.Error(status, err)
				}
			})
			synctest.Wait()
		}
		all.Wait()
		soonest, latest := a.at[1].Sub(begun), a.at[len(a.at)-1].Sub(begun)
		if len(a.at) != 201 || soonest < 10*time.Second || latest >= 11*time.Second || latest-soonest < 800*time.Millisecond {
			t.Errorf("got %d requests, the second after %s, the last after %s, want 201, spread over the eleventh second", len(a.at), soonest,
				latest)
		}
	})
}

// All waits of a request end within MaxWait of its start.
func TestTransport_MaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := script("429 | Retry-After: 50")
		begun := time.Now()
		status, err := get(t, &httpclient.Transport{Base: a}, "http://api.test/")
		if took := time.Since(begun); status != 429 || len(a.at) != 3 || took < 100*time.Second || took > httpclient.DefaultMaxWait {
			t.Errorf("got %d, %v after %d requests in %s, want 429 after 3 in 100s to 2m0s", status, err, len(a.at), took)
		}
	})
}

// Nothing that an API sends stops a client for longer than MaxWait. Meanwhile, requests fail at once.
func TestTransport_probe(t *testing.T) {
	for _, first := range []string{"429 | Retry-After: 3600", "200 | X-RateLimit-Remaining: 0 | X-RateLimit-Reset: 3600",
		"503 | Retry-After: 3600"} {
		synctest.Test(t, func(t *testing.T) {
			a := script(first, "200")
			transport := &httpclient.Transport{Base: a}
			if status, err := get(t, transport, "http://api.test/"); status == 0 {
				t.Fatal(err)
			}
			time.Sleep(httpclient.DefaultMaxWait - 1)
			begun := time.Now()
			_, err := get(t, transport, "http://api.test/")
			if want := "httpclient: the quota of api.test is exhausted; retry in 58m0s"; err == nil || err.Error() != want ||
				time.Since(begun) != 0 {
				t.Errorf("%s: got %v after %s, want %s at once", first, err, time.Since(begun), want)
			}
			time.Sleep(time.Nanosecond)
			if status, err := get(t, transport, "http://api.test/"); status != 200 || time.Since(begun) != 1 || len(a.at) != 2 {
				t.Errorf("%s: got %d, %v after %s, want 200", first, status, err, time.Since(begun))
			}
		})
	}
}

// A client that sends one request at a time is never refused by a Gate, and uses the whole quota.
func TestTransport_gate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(30 * 365 * 24 * time.Hour) // the synthetic clock begins in 2000, before 10^9 seconds
		a := limited(t, 0, algo.Rate{Algorithm: algo.FixedWindow, Requests: 20, Window: time.Minute})
		transport := &httpclient.Transport{Base: a}
		begun := time.Now()
		for range 45 {
			if status, err := get(t, transport, "http://api.test/"); status != 204 {
				t.Fatal(status, err)
			}
		}
		if took := time.Since(begun); a.status[429] != 0 || len(a.at) != 45 || took > 2*time.Minute+3*time.Second {
			t.Errorf("got statuses %v in %s, want 45 requests and no 429 in two minutes", a.status, took)
		}
	})
}

// Requests of different quotas do not wait for each other.
func TestTransport_separateQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			line := "200"
			switch {
			case strings.HasPrefix(r.URL.Path, "/search/"):
				line = `429 | Retry-After: 60 | RateLimit: "search";r=0;t=60`
			case r.URL.Path == "/down":
				line = "503 | Retry-After: 60"
			case r.Header.Get("Authorization") == "a", r.Header.Get("X-Api-Key") == "k":
				line = "429 | Retry-After: 60"
			}
			answer(w, line)
		})}
		transport := &httpclient.Transport{Base: a, Retries: -1, MaxWait: time.Second}
		for i, c := range []struct {
			method, url, name, value string
			want                     int // 0 is a WaitError
		}{
			{"GET", "http://api.test/search/1", "", "", 429},
			{"GET", "http://api.test/search/2", "", "", 0},
			{"GET", "http://api.test/data/1", "", "", 200},
			{"GET", "http://api.test/down", "", "", 503},
			{"GET", "http://api.test/down", "", "", 0},
			{"POST", "http://api.test/down", "", "", 503},
			{"GET", "http://api.test/up", "", "", 200},
			{"GET", "http://api.test/x/1", "Authorization", "a", 429},
			{"GET", "http://api.test/y/1", "Authorization", "a", 0},
			{"GET", "http://api.test/x/1", "Authorization", "b", 200},
			{"GET", "http://api.test/x/1", "X-Api-Key", "k", 429},
			{"GET", "http://api.test/x/1", "X-Api-Key", "k", 0},
			{"GET", "http://api.test/x/1", "X-Api-Key", "l", 200},
			{"GET", "http://other.test/y/1", "Authorization", "a", 429},
		} {
			r, _ := http.NewRequestWithContext(t.Context(), c.method, c.url, http.NoBody)
			r.Header.Set(c.name, c.value)
			status, err := do(transport, r)
			if _, waits := errors.AsType[*httpclient.WaitError](err); status != c.want || waits != (c.want == 0) {
				t.Errorf("request %d: %s %s %s: got %d, %v, want %d", i, c.method, c.url, c.value, status, err, c.want)
			}
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
