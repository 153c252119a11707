package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

// local is the REST API and the HTTP API as serve runs them, with a clock that the
// test winds.
type local struct {
	t          *testing.T
	checkout   checkout
	rest, http *httptest.Server
	apiKeys    map[string]string // by tier
	mu         sync.Mutex
	now        time.Time
}

// start is a whole second, so that a wait in whole seconds is exact.
var start = time.Date(2100, 3, 4, 12, 0, 30, 0, time.UTC)

func newLocal(t *testing.T, store, rules string) *local {
	t.Helper()
	if store != "memory" {
		storetest.Server(t, store, serverVariables[store])
	}
	rules, err := filepath.Abs(rules)
	if err != nil {
		t.Fatal(err)
	}
	l := &local{t: t, checkout: scratch(t), now: start}
	s := &server{rules: rules, store: store, out: io.Discard, logger: slog.New(slog.DiscardHandler), clock: l.clock, namespace: namespace()}
	t.Cleanup(s.close)
	_, template, err := s.read()
	if err != nil {
		t.Fatal(err)
	}
	apis, err := s.open(t.Context(), template)
	if err != nil {
		t.Fatal(err)
	}
	l.apiKeys = s.apiKeys
	l.rest, l.http = httptest.NewServer(apis[0]), httptest.NewServer(apis[1])
	t.Cleanup(l.rest.Close)
	t.Cleanup(l.http.Close)
	return l
}

func (l *local) clock() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func (l *local) wait(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = l.now.Add(d)
}

// token returns a token that is valid at the test's time.
func (l *local) token(user, tier string) string {
	l.t.Helper()
	token, err := makeToken(l.checkout, user, tier, time.Until(start)+time.Hour, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	return token
}

// reply is an answer with its body read.
type reply struct {
	*http.Response
	body string
}

func (l *local) send(api *httptest.Server, method, path, token string) reply {
	l.t.Helper()
	return send(l.t, method, api.URL+path, token)
}

// sendWith sends a body and a header.
func (l *local) sendWith(api *httptest.Server, method, path, body string, header http.Header) reply {
	l.t.Helper()
	request, err := http.NewRequestWithContext(l.t.Context(), method, api.URL+path, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	maps.Copy(request.Header, header)
	return do(l.t, request)
}

// apiKey returns a key that the gateway knows.
func (l *local) apiKey() string {
	l.t.Helper()
	for _, key := range l.apiKeys {
		return key
	}
	l.t.Fatal("no API key was made")
	return ""
}

func send(t *testing.T, method, url, token string) reply {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return do(t, request)
}

func do(t *testing.T, request *http.Request) reply {
	t.Helper()
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	return reply{r, string(body)}
}

var stores = []string{"memory", "dynamodb", "redis"}

// The document of the design, on every store and both APIs.
func TestServe_document(t *testing.T) {
	for _, store := range stores {
		for _, kind := range []string{"REST", "HTTP"} {
			t.Run(store+" "+kind, func(t *testing.T) {
				l := newLocal(t, store, "testdata/design.json")
				api := l.rest
				if kind == "HTTP" {
					api = l.http
				}
				l.searches(api, l.token("frank", "free"), 20)
				l.searches(api, l.token("paula", "paid"), 100)
				l.searches(api, l.token("ulla", "gold"), 20) // an unknown tier is free
				l.searches(api, l.token("nina", ""), 20)
				l.searches(api, "", 20) // so is nobody in particular
				l.enterprise(api)
				l.data(api)
			})
		}
	}
}

// searches expects n searches at once, a refusal as the design has it, and after the
// wait that it tells, one more.
func (l *local) searches(api *httptest.Server, token string, n int) {
	l.t.Helper()
	now, quota := l.clock().Unix(), n*5
	if n == 100 {
		quota = 1000
	}
	for i := range n {
		r := l.send(api, http.MethodGet, "/api/v1/search?q=weir", token)
		if r.StatusCode != http.StatusOK || r.Header.Get("X-RateLimit-Remaining") != strconv.Itoa(n-1-i) || r.Header.Get("X-RateLimit-Limit") != strconv.Itoa(n) {
			l.t.Fatalf("search %d of %d: %s %v", i+1, n, r.Status, r.Header)
		}
		if i == 2 && n == 20 {
			l.expect(r, map[string]string{
				"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "17", "X-RateLimit-Reset": strconv.FormatInt(now+2, 10),
				"RateLimit-Policy": `"search";q=100;w=60`, "RateLimit": `"search";r=17;t=2`, "Retry-After": "", "Weir-Degraded": "",
			})
		}
	}
	r := l.send(api, http.MethodGet, "/api/v1/search?q=weir", token)
	if r.StatusCode != http.StatusTooManyRequests {
		l.t.Fatalf("search %d: %s", n+1, r.Status)
	}
	full := map[int]int64{20: 12, 100: 6}[n]
	l.expect(r, map[string]string{
		"Retry-After": "1", "X-RateLimit-Limit": strconv.Itoa(n), "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": strconv.FormatInt(now+full, 10), "Cache-Control": "no-store",
		"RateLimit-Policy": fmt.Sprintf(`"search";q=%d;w=60`, quota), "RateLimit": `"search";r=0;t=1`, "Content-Type": "application/problem+json",
	})
	want := `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests","status":429,"error":"rate_limit_exceeded",` +
		`"message":"Too many requests. Retry after 1 second.","limit":` + strconv.Itoa(quota) + `,"window":"60s","violated-policies":["search"]}`
	if r.body != want {
		l.t.Errorf("body\n got %s\nwant %s", r.body, want)
	}
	l.wait(time.Second)
	if r := l.send(api, http.MethodGet, "/api/v1/search?q=weir", token); r.StatusCode != http.StatusOK {
		l.t.Errorf("having waited as told: %s", r.Status)
	}
}

func (l *local) expect(r reply, fields map[string]string) {
	l.t.Helper()
	for name, want := range fields {
		if got := r.Header.Get(name); got != want {
			l.t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// enterprise expects a sliding window of 10,000.
func (l *local) enterprise(api *httptest.Server) {
	l.t.Helper()
	r := l.send(api, http.MethodGet, "/api/v1/search", l.token("erna", "enterprise"))
	reset := l.clock().Truncate(time.Minute).Add(2 * time.Minute)
	l.expect(r, map[string]string{"X-RateLimit-Limit": "10000", "X-RateLimit-Remaining": "9999", "RateLimit-Policy": `"search";q=10000;w=60`, "X-RateLimit-Reset": strconv.FormatInt(reset.Unix(), 10)})
}

// data expects POSTs charged to the caller's limit of 10 and to everybody's.
func (l *local) data(api *httptest.Server) {
	l.t.Helper()
	token := l.token("dora", "free")
	for i := range 10 {
		if r := l.send(api, http.MethodPost, "/api/v1/data", token); r.StatusCode != http.StatusCreated || r.Header.Get("X-RateLimit-Remaining") != strconv.Itoa(9-i) {
			l.t.Fatalf("POST %d: %s %v", i+1, r.Status, r.Header)
		}
	}
	if r := l.send(api, http.MethodPost, "/api/v1/data", token); r.StatusCode != http.StatusTooManyRequests {
		l.t.Errorf("POST 11: %s", r.Status)
	}
	// A paid caller has no limit of its own here, and the global one does not speak.
	if r := l.send(api, http.MethodPost, "/api/v1/data", l.token("paula", "paid")); r.StatusCode != http.StatusCreated || r.Header.Get("X-RateLimit-Limit") != "" {
		l.t.Errorf("paid: %s %v", r.Status, r.Header)
	}
}

// A global limit counts all callers, refuses in its own name, and what a caller's own
// limit was charged meanwhile is given back.
func TestServe_global(t *testing.T) {
	document := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(document, []byte(`{"rules":[{"endpoint":"/api/v1/data","method":"POST","limits":{
		"free":{"requests":10,"window_seconds":60},"global":{"name":"all","requests":4,"window_seconds":60}}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, store := range stores {
		t.Run(store, func(t *testing.T) {
			l := newLocal(t, store, document)
			for i := range 6 {
				r := l.send(l.http, http.MethodPost, "/api/v1/data", l.token("user"+strconv.Itoa(i%2), ""))
				if want := map[bool]int{true: http.StatusCreated, false: http.StatusTooManyRequests}[i < 4]; r.StatusCode != want {
					t.Fatalf("POST %d: %s", i+1, r.Status)
				}
				if i >= 4 && r.Header.Get("RateLimit-Policy") != `"all";q=4;w=60` {
					t.Errorf("refused by %s", r.Header.Get("RateLimit-Policy"))
				}
			}
			l.wait(2 * time.Minute)
			if r := l.send(l.http, http.MethodPost, "/api/v1/data", l.token("user0", "")); r.Header.Get("X-RateLimit-Remaining") != "9" {
				t.Errorf("two minutes later: %v", r.Header)
			}
		})
	}
}

// Bad credentials are 401 on both APIs, cost the claimed user nothing, and are charged
// to the address where the rules have a limit for that.
func TestServe_credentials(t *testing.T) {
	document := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(document, []byte(`{"rules":[{"endpoint":"*","limits":{
		"free":{"requests":10,"window_seconds":60},"global":{"name":"address","requests":8,"window_seconds":60,"per":["ip"]}}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	l := newLocal(t, "memory", document)
	good := l.token("alice", "free")
	expired, err := makeToken(l.checkout, "alice", "free", -time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(good, ".")
	none := "eyJhbGciOiJub25lIn0." + parts[1] + "."
	stranger, err := makeToken(scratch(t), "alice", "free", time.Until(start)+time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, api := range []*httptest.Server{l.rest, l.http} {
		for name, token := range map[string]string{"expired": expired, "alg none": none, "another key": stranger, "changed": good[:len(good)-8] + "AAAAAAAA"} {
			r := l.send(api, http.MethodGet, "/api/v1/search", token)
			if r.StatusCode != http.StatusUnauthorized || r.Header.Get("X-RateLimit-Limit") != "" || !json.Valid([]byte(r.body)) {
				t.Errorf("%s: %s %v %s", name, r.Status, r.Header, r.body)
			}
		}
	}
	if r := l.send(l.rest, http.MethodGet, "/api/v1/search", none); r.StatusCode != http.StatusTooManyRequests || r.Header.Get("RateLimit-Policy") != `"address";q=8;w=60` {
		t.Errorf("the ninth bad credential of the address: %s %v", r.Status, r.Header)
	}
	l.wait(2 * time.Minute)
	for i, api := range []*httptest.Server{l.rest, l.http} {
		if r := l.send(api, http.MethodGet, "/api/v1/search", l.token("alice", "free")); r.Header.Get("X-RateLimit-Remaining") != strconv.Itoa(7-i) {
			t.Errorf("alice afterwards: %s %v", r.Status, r.Header)
		}
	}
}

// process is a gateway in a process of its own.
type process struct {
	*exec.Cmd
	url    string
	output *bytes.Buffer
}

func startProcess(t *testing.T, args []string, environment ...string) *process {
	t.Helper()
	for range 10 {
		p, ready := tryProcess(t, args, environment)
		if ready {
			return p
		}
		if err := p.Wait(); !strings.Contains(p.output.String(), inUse) {
			t.Fatalf("the gateway ended before it was ready: %v\n%s", err, p.output)
		}
	}
	t.Fatal("no ports stayed free")
	return nil
}

// tryProcess starts a gateway on ports that were free just now, and reports whether it
// got so far as to say what to try.
func tryProcess(t *testing.T, args, environment []string) (p *process, ready bool) {
	t.Helper()
	port := freePorts(t)
	p = &process{exec.CommandContext(t.Context(), os.Args[0], append([]string{"serve", "--port", strconv.Itoa(port)}, args...)...), fmt.Sprintf("http://127.0.0.1:%d", port), &bytes.Buffer{}}
	p.Env = append(append(os.Environ(), "WEIR_TEST_MAIN=1"), environment...)
	p.Stderr = p.output
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "Try:") {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return p, true
		}
	}
	return p, false
}

// Two gateways over one server, and 64 clients of one caller: exactly the limit is
// admitted, whatever the algorithm, and a refusal by one limit charges no other.
func TestServe_twoProcesses(t *testing.T) {
	for _, store := range stores[1:] {
		t.Run(store, func(t *testing.T) {
			storetest.Server(t, store, serverVariables[store])
			rules, err := filepath.Abs("testdata/exact.json")
			if err != nil {
				t.Fatal(err)
			}
			c := scratch(t)
			name := namespace()
			args := []string{"--store", store, "--rules", rules, "--namespace", name}
			gateways := []*process{startProcess(t, args), startProcess(t, args)}
			for _, tier := range []string{"bucket", "sliding", "fixed", "three"} {
				token, err := makeToken(c, "hammer-"+tier, tier, time.Hour, nil)
				if err != nil {
					t.Fatal(err)
				}
				admitted, least := hammer(t, gateways, token)
				if admitted != 50 {
					t.Errorf("%s: %d admitted of a limit of 50", tier, admitted)
				}
				if least != 0 {
					t.Errorf("%s: the last to be admitted had %d remaining", tier, least)
				}
			}
			if got, want := remaining(t, store, name, rules), "bucket 10, sliding 0, fixed 20"; got != want {
				t.Errorf("of three limits remain %s, want %s: a refusal by one has charged another", got, want)
			}
		})
	}
}

// remaining looks into the store: what the caller with three limits has left of each.
func remaining(t *testing.T, store, namespace, rulesFile string) string {
	t.Helper()
	c := boot.Config{Store: store, Namespace: namespace, Table: localTable, DynamoDBEndpoint: os.Getenv("DYNAMODB_ENDPOINT"), RedisURL: os.Getenv("REDIS_URL"), Local: true}
	s, closeStore, err := c.OpenStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = closeStore() }()
	document, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	r, err := rules.Parse(document, rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	charges := r.Charges(nil, http.MethodGet, "/api/v1/search", limiter.Caller{User: "hammer-three", Tier: "three"})
	for i := range charges {
		charges[i].Cost = 0
	}
	now, results := algo.InstantOf(time.Now()), make([]limiter.Result, len(charges))
	if _, err := s.Take(t.Context(), now, charges[0].Subject, charges, results); err != nil {
		t.Fatal(err)
	}
	var left []string
	for i, c := range charges {
		left = append(left, fmt.Sprintf("%s %d", c.Limit.Name, results[i].Machine.Remaining(results[i].State, now)))
	}
	return strings.Join(left, ", ")
}

// hammer sends 4 requests from each of 64 clients, and returns how many were admitted
// and the least that one of them had remaining.
func hammer(t *testing.T, gateways []*process, token string) (admitted, least int64) {
	t.Helper()
	var n, low atomic.Int64
	low.Store(1 << 30)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for range 4 {
				r := send(t, http.MethodGet, gateways[i%2].url+"/api/v1/search", token)
				if degraded := r.Header.Get("Weir-Degraded"); degraded != "" {
					t.Errorf("not decided: %s", degraded)
				}
				switch r.StatusCode {
				case http.StatusOK:
					n.Add(1)
					remaining, err := strconv.ParseInt(r.Header.Get("X-RateLimit-Remaining"), 10, 64)
					if err != nil {
						t.Error(err)
					}
					for old := low.Load(); remaining < old && !low.CompareAndSwap(old, remaining); old = low.Load() {
					}
				case http.StatusTooManyRequests:
				default:
					t.Errorf("%s: %s", r.Status, r.body)
				}
			}
		})
	}
	wg.Wait()
	return n.Load(), low.Load()
}

// What serve started ends with it, on SIGTERM and on Ctrl-C.
func TestServe_ends(t *testing.T) {
	for _, c := range []struct {
		store  string
		signal os.Signal
	}{{"memory", syscall.SIGTERM}, {"redis", syscall.SIGTERM}, {"redis", os.Interrupt}, {"dynamodb", syscall.SIGTERM}} {
		t.Run(c.store+" "+c.signal.String(), func(t *testing.T) {
			if c.store != "memory" { // which says that the server can be started here
				storetest.Server(t, c.store, serverVariables[c.store])
			}
			scratch(t)
			p := startProcess(t, []string{"--store", c.store}, "REDIS_URL=", "DYNAMODB_ENDPOINT=")
			if r := send(t, http.MethodGet, p.url+"/api/v1/search", ""); r.StatusCode != http.StatusOK || r.Header.Get("Weir-Degraded") != "" {
				t.Fatalf("%s %v", r.Status, r.Header)
			}
			children := childrenOf(t, p.Process.Pid)
			if want := map[bool]int{true: 0, false: 1}[c.store == "memory"]; len(children) != want {
				t.Errorf("%d processes were started, want %d", len(children), want)
			}
			if err := p.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			if err := p.Wait(); err != nil {
				t.Errorf("ended with %v: %s", err, p.output)
			}
			for _, child := range children {
				if err := syscall.Kill(child, 0); err == nil {
					t.Errorf("process %d is still there", child)
				}
			}
		})
	}
}

// childrenOf returns the processes that a process has started.
func childrenOf(t *testing.T, pid int) (children []int) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ps", "-o", "pid=", "--ppid", strconv.Itoa(pid)).Output()
	if err != nil && len(out) > 0 {
		t.Fatal(err)
	}
	for field := range strings.FieldsSeq(string(out)) {
		child, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		children = append(children, child)
	}
	return children
}
