package verify_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/serve"
	"github.com/weir-limits/weir/local/verify"
)

// faults has faults of a deployment, and the rows that they make fail.
var faults = []struct {
	name, detail string // detail is in the first row
	front        front
	rows         []string
}{
	{"nothing at the URL", "no answer: ", func(http.Handler) http.Handler {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	}, []string{"allowed", "routes"}},
	{"the handler does not copy the fields", "no X-RateLimit-Remaining", admitted(without("X-RateLimit-Remaining")),
		[]string{"allowed", "routes"}},
	{"two values of a field", "2 values of RateLimit", admitted(func(h http.Header) { h.Add("RateLimit", "x") }),
		[]string{"allowed", "routes"}},
	{"the policy is too narrow", "Weir-Degraded: store_unavailable",
		admitted(func(h http.Header) { h.Set("Weir-Degraded", "store_unavailable") }), []string{"allowed"}},
	{"no response for UNAUTHORIZED", "no WWW-Authenticate", status(http.StatusUnauthorized, func(r *httptest.ResponseRecorder) {
		for _, name := range []string{"WWW-Authenticate", "X-Amzn-Remapped-Www-Authenticate"} {
			r.Header().Del(name)
		}
	}), []string{"unauthorized"}},
	{"an unknown key is anonymous", "200 to an invalid credential", replacing("X-Api-Key", isNewKey, ""), []string{"api-key"}},
	{"a valid key is unknown", "401 unauthorized to the valid credential", replacing("X-Api-Key", func(v string) bool { return v == validKey },
		"weir_unknown"), []string{"api-key"}},
	{"tokens are ignored", "200 to an invalid credential", replacing("Authorization", isToken, ""), []string{"token"}},
	{"a token is invalid", "401 unauthorized to the valid credential", replacing("Authorization", isToken, "Bearer e30.e30.e30"),
		[]string{"token"}},
	{"a preflight counts", "", charged, []string{"preflight"}},
	{"a route without the authorizer", "GET /api/v1/items/{id}: 200, no X-RateLimit-Limit",
		answering(func(r *http.Request, w *httptest.ResponseRecorder) {
			if r.URL.Path == "/api/v1/items/7" && w.Code == http.StatusOK {
				without("X-RateLimit-Limit")(w.Header())
			}
		}), []string{"routes"}},
	{"results of the authorizer are cached", "a result of the authorizer is cached", cached, []string{"limit-exact", "refused"}},
	{"too many requests are admitted", "want 57 to 59 of 68 requests pass, got 61 pass", lenient, []string{"limit-exact"}},
	{"503 instead of 429", "want 58 to 59 of 68 requests pass, got 68 pass", status(429, func(r *httptest.ResponseRecorder) { r.Code = 503 }),
		[]string{"limit-exact", "refused"}},
	{"403 instead of 429", "status 403", status(429, func(r *httptest.ResponseRecorder) {
		r.Code = http.StatusForbidden
		r.Header().Set("X-Amzn-Errortype", "AccessDeniedException")
	}), []string{"refused"}},
	{"a refusal with a rest", "X-RateLimit-Remaining 1", status(429, func(r *httptest.ResponseRecorder) {
		r.Header().Set("X-RateLimit-Remaining", "1")
	}), []string{"refused"}},
	{"fields not mapped", "no RateLimit-Policy", status(429, func(r *httptest.ResponseRecorder) { without("RateLimit-Policy")(r.Header()) }),
		[]string{"refused"}},
	{"Content-Type not changed", "Content-Type application/json",
		status(429, func(r *httptest.ResponseRecorder) { r.Header().Set("Content-Type", "application/json") }), []string{"refused"}},
	{"body not overridden", `title ""`, status(429, func(r *httptest.ResponseRecorder) {
		r.Body.Reset()
		r.Body.WriteString(`{"message": "Forbidden"}`)
	}), []string{"refused"}},
	{"a variable in the body", "violated-policies [\"other\"]", status(429, func(r *httptest.ResponseRecorder) {
		text := strings.Replace(r.Body.String(), `"violated-policies":[`, `"violated-policies":["other"],"x":[`, 1)
		r.Body.Reset()
		r.Body.WriteString(text)
	}), []string{"refused"}},
	{"a missing value gives an empty field", "an empty Weir-Degraded",
		status(429, func(r *httptest.ResponseRecorder) { r.Header()["Weir-Degraded"] = []string{""} }), []string{"refused"}},
	{"a client chooses its address", "5 of 5 requests with forged fields are admitted", changing(func(r *http.Request) {
		if address := r.Header.Get("X-Forwarded-For"); address != "" {
			r.RemoteAddr = address + ":443"
		}
	}), []string{"forged"}},
}

// Each fault makes its rows fail, and no others, although one refusal is that of a busy subject.
func TestRun_faults(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			d, _ := served(t, serve.Memory, cors, f.front, busy)
			results := verified(t, d)
			if got := ids(results, verify.Fail); !slices.Equal(got, f.rows) || !strings.Contains(detail(results, f.rows[0]), f.detail) {
				t.Errorf("failed rows: got %q, want %q and %q\n%s", got, f.rows, f.detail, details(results))
			}
		})
	}
	d, _ := served(t, serve.Memory, cors, busy)
	results := verified(t, d)
	if got, want := ids(results, verify.Pass), len(verify.Rows()); len(got) != want {
		t.Errorf("no fault: got passed rows %q, want all %d\n%s", got, want, details(results))
	}
	d.Wait = nil
	d.MaxWait = 0
	if results := verified(t, d); !slices.Contains(ids(results, verify.Skip), "retry-after") || len(ids(results, verify.Fail)) > 0 {
		t.Errorf("no wait: got %s, want retry-after skipped", details(results))
	}
}

// A limit that does not recover after Retry-After fails the row about it.
func TestRun_stopped(t *testing.T) {
	d, _ := served(t, serve.Memory)
	verified(t, d) // the next run need not wait for the limit first
	d.Wait = func(context.Context, time.Duration) error { return nil }
	if failed := ids(verified(t, d), verify.Fail); !slices.Equal(failed, []string{"retry-after"}) {
		t.Errorf("got failed rows %q, want retry-after", failed)
	}
}

// A deployment without an issuer, with another header field of API keys or with none, or that requires a credential, fails
// no row. Rows that need what it lacks are skipped.
func TestRun_variants(t *testing.T) {
	closed := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "" && r.Header.Get("X-Api-Key") == "" {
				r.Header.Set("X-Api-Key", "weir_unknown")
			}
			h.ServeHTTP(w, r)
		})
	}
	keyed := changing(func(r *http.Request) {
		r.Header.Set("X-Api-Key", r.Header.Get("X-Other"))
		if r.Header.Get("X-Api-Key") == "" {
			r.Header.Del("X-Api-Key")
		}
	})
	for _, c := range []struct {
		name    string
		front   front
		change  func(*verify.Deployment)
		skipped []string
		reason  string
	}{
		{"no issuer", changing(func(r *http.Request) { r.Header.Del("Authorization") }), func(d *verify.Deployment) { d.Token = "" },
			[]string{"token"}, "requires $WEIR_TOKEN"},
		{"another field", keyed, func(d *verify.Deployment) { d.APIKeyHeader = "x-other" }, nil, ""},
		{"no field", changing(func(r *http.Request) { r.Header.Del("X-Api-Key") }), func(d *verify.Deployment) { d.APIKeyHeader = "none" },
			[]string{"api-key"}, "API keys identify no caller (API_KEY_HEADER is none)"},
		{"a credential is required", closed, func(*verify.Deployment) {}, []string{"allowed", "routes", "refused"},
			"the deployment requires a credential; set WEIR_TOKEN or WEIR_API_KEY"},
		{"a credential is required and given", closed, func(d *verify.Deployment) {
			d.Credential = http.Header{"Authorization": {"Bearer " +
				d.Token}}
		}, []string{"forged"}, "no limit refused a request without a credential; the last answer is 401 unauthorized"},
		{"used up", cors, func(d *verify.Deployment) { d.MaxWait = 0; verified(t, d) }, []string{"allowed", "preflight", "limit-exact"},
			verify.UsedUp},
	} {
		d, _ := served(t, serve.Memory, cors, c.front)
		c.change(d)
		results := verified(t, d)
		var skipped []string
		for _, r := range results {
			if r.Outcome == verify.Skip && r.Detail == c.reason {
				skipped = append(skipped, r.Row)
			}
		}
		if failed := ids(results, verify.Fail); len(failed) > 0 || !slices.Equal(skipped, c.skipped) {
			t.Errorf("%s: got failed rows %q and skipped %q, want none and %q\n%s", c.name, failed, skipped, c.skipped, details(results))
		}
	}
}

// If some requests of the burst were decided without the store, limit-exact names the reason.
func TestRun_degradedBurst(t *testing.T) {
	d, _ := served(t, serve.Memory, lenient, answering(func(r *http.Request, w *httptest.ResponseRecorder) {
		if strings.Contains(r.URL.Path, "/items/") {
			w.Header().Set("Weir-Degraded", "store_timeout")
		}
	}))
	if got, want := detail(verified(t, d), "limit-exact"),
		"61 pass, some of them without the store (Weir-Degraded: store_timeout)"; !strings.HasSuffix(got, want) {
		t.Errorf("limit-exact: got %q, want %q", got, want)
	}
}

// An answer that no limit decided proves nothing about a limit.
func TestRun_vacuous(t *testing.T) {
	var items atomic.Int64
	d, _ := served(t, serve.Memory, answering(func(r *http.Request, w *httptest.ResponseRecorder) {
		if strings.Contains(r.URL.Path, "/items/") && items.Add(1) > 2 {
			w.Code = http.StatusTooManyRequests
			w.Body.Reset()
			w.Body.WriteString(`{"error":"subject_busy"}`)
		}
	}))
	if passed := ids(verified(t, d), verify.Pass); slices.Contains(passed, "limit-exact") || slices.Contains(passed, "refused") {
		t.Errorf("a busy subject: got passed rows %q, want none about its limit", passed)
	}
}

// An answer cannot control the terminal, and a long answer is shortened.
func TestRun_hostile(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"error":"\u001b[2J\u001b` + strings.Repeat("\x1b[31mred", 100_000) + `"}`))
	}))
	t.Cleanup(server.Close)
	d, _ := served(t, serve.Memory)
	d.URL = server.URL
	for _, r := range verified(t, d) {
		if text := fmt.Sprint(r); strings.Contains(text, "\x1b") || len(text) > 6000 {
			t.Errorf("row %s: got %d bytes with an escape sequence %t, want a short text without one", r.Row, len(text),
				strings.Contains(text, "\x1b"))
		}
	}
}

// The row about routes sends only GET and HEAD requests, unless it may write. It lists what it does not test.
func TestRun_routes(t *testing.T) {
	var mu sync.Mutex
	var sent []string
	d, _ := served(t, serve.Memory, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.RawQuery == "routes" {
				mu.Lock()
				sent = append(sent, r.Method)
				mu.Unlock()
			}
			get := r.Clone(r.Context())
			if get.Method == http.MethodHead { // the sample API has no such route
				get.Method = http.MethodGet
			}
			h.ServeHTTP(w, get)
		})
	})
	parsed, err := checkout.ParseRules([]byte(`{"version":1,"exempt":[{"endpoint":"/health"}],"rules":[{"endpoint":"/api/v1/search",` +
		`"limits":{"*":{"requests":9,"window":"1m"}}},{"endpoint":"/api/v1/data","limits":{"*":{"requests":9,"window":"1m"}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	d.Rules, d.Routes = parsed, []verify.Route{{Method: "GET", Pattern: "/api/v1/items/{id}"}}
	for _, route := range []string{"GET /health", "GET /free", "GET /api/v1/search", "HEAD /api/v1/search", "POST /api/v1/data"} {
		method, path, _ := strings.Cut(route, " ")
		d.Routes = append(d.Routes, verify.Route{Method: method, Pattern: path, Path: path + "?routes"})
	}
	for write, want := range map[bool]string{
		false: "2 of 6 routes; exempt: GET /health; no limit in the rules: GET /free; needs --write: POST /api/v1/data; no value of a " +
			"parameter (--value): GET /api/v1/items/{id}",
		true: "3 of 6 routes; exempt: GET /health; no limit in the rules: GET /free; no value of a parameter (--value): GET /api/v1/items/{id}",
	} {
		sent = nil
		d.Write = write
		if got := detail(verified(t, d), "routes"); got != want || slices.Contains(sent, "POST") != write || !slices.Contains(sent, "HEAD") {
			t.Errorf("write %t: got %q and the methods %q, want %q", write, got, sent, want)
		}
	}
}

func without(field string) func(http.Header) {
	return func(h http.Header) { h.Del(field) }
}

// admitted changes the fields of answers to admitted requests.
func admitted(change func(http.Header)) front {
	return answering(func(_ *http.Request, r *httptest.ResponseRecorder) {
		if r.Code != http.StatusTooManyRequests && r.Header().Get("RateLimit") != "" {
			change(r.Header())
		}
	})
}

// status changes the answers with a status.
func status(code int, change func(*httptest.ResponseRecorder)) front {
	return answering(func(_ *http.Request, r *httptest.ResponseRecorder) {
		if r.Code == code {
			change(r)
		}
	})
}

// cors answers preflights.
func cors(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		if r.Method != http.MethodOptions {
			h.ServeHTTP(w, r)
		}
	})
}

// charged sends a GET request for each preflight.
func charged(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodOptions {
			get := r.Clone(r.Context())
			get.Method = http.MethodGet
			h.ServeHTTP(httptest.NewRecorder(), get)
		}
		h.ServeHTTP(w, r)
	})
}

// replacing replaces the values of a field for which is returns true. An empty value removes the field.
func replacing(field string, is func(string) bool, value string) front {
	return changing(func(r *http.Request) {
		switch {
		case !is(r.Header.Get(field)):
		case value == "":
			r.Header.Del(field)
		default:
			r.Header.Set(field, value)
		}
	})
}

// isToken reports whether a field has a token with a signature, and isNewKey whether it has a new API key.
func isToken(value string) bool { return strings.Count(value, ".") == 2 }
func isNewKey(value string) bool {
	return value != validKey && len(value) == len(validKey)
}

// cached repeats the fields of a caller's first answer at a path.
func cached(h http.Handler) http.Handler {
	var kept sync.Map // *httptest.ResponseRecorder by path and credentials
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Method + r.URL.Path + r.Header.Get("X-Api-Key") + r.Header.Get("Authorization")
		first, ok := kept.Load(key)
		if !ok {
			recorder := httptest.NewRecorder()
			h.ServeHTTP(recorder, r)
			first, _ = kept.LoadOrStore(key, recorder)
		}
		recorder := first.(*httptest.ResponseRecorder)
		maps.Copy(w.Header(), recorder.Header())
		w.WriteHeader(recorder.Code)
		_, _ = w.Write(recorder.Body.Bytes())
	})
}

// lenient admits three requests too many to the limit that the run exhausts.
func lenient(h http.Handler) http.Handler {
	var admitted atomic.Int64
	return answering(func(r *http.Request, w *httptest.ResponseRecorder) {
		if strings.Contains(r.URL.Path, "/items/") && w.Code == http.StatusTooManyRequests && admitted.Add(1) <= 3 {
			w.Code = http.StatusOK
		}
	})(h)
}

// busy answers the first refused request as if its subject were busy, without the fields of the limit.
func busy(h http.Handler) http.Handler {
	var once atomic.Bool
	return status(http.StatusTooManyRequests, func(r *httptest.ResponseRecorder) {
		if !once.CompareAndSwap(false, true) {
			return
		}
		for name := range r.Header() {
			if strings.Contains(name, "Ratelimit") {
				r.Header().Del(name)
			}
		}
		r.Body.Reset()
		r.Body.WriteString(`{"error":"subject_busy"}`)
	})(h)
}
