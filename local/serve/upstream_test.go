package serve

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command/commandtest"
	"github.com/weir-limits/weir/local/servers"
)

// fronted is an upstream behind weir serve --upstream, in an empty folder.
type fronted struct {
	commandtest.Clock
	t        *testing.T
	url      string // of the gateway
	upstream *httptest.Server
	rules    string // file
	log      *commandtest.Output
	serving  sync.WaitGroup // requests that the gateway serves
}

func newFronted(t *testing.T, store, rules string, h http.HandlerFunc) *fronted {
	t.Helper()
	if variable := servers.Variables[store]; variable != "" {
		storetest.Server(t, store, variable)
	}
	t.Chdir(t.TempDir())
	f := &fronted{t: t, rules: filepath.Join(t.TempDir(), "rules.json"), log: commandtest.NewOutput()}
	f.Set(start)
	f.write(rules)
	f.upstream = httptest.NewServer(h)
	t.Cleanup(f.upstream.Close)
	s := &Server{Options: Options{API: sample.New, Rules: f.rules, Store: store, Out: io.Discard,
		Logger: slog.New(slog.NewTextHandler(f.log, nil)), Clock: f.Now, Namespace: checkouttest.Namespace()}}
	if err := s.Upstream.Set(f.upstream.URL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	handlers, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.serving.Add(1)
		defer f.serving.Done()
		handlers[0].ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	f.url = front.URL
	return f
}

func (f *fronted) write(rules string) {
	f.t.Helper()
	if err := os.WriteFile(f.rules, []byte(rules), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// raw sends the text of a request, and returns the connection after the header of the answer.
func (f *fronted) raw(request string) (*http.Response, net.Conn, *bufio.Reader) {
	f.t.Helper()
	c, err := (&net.Dialer{}).DialContext(f.t.Context(), "tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, strings.ReplaceAll(request, "\n", "\r\n")); err != nil {
		f.t.Fatal(err)
	}
	in := bufio.NewReader(c)
	r, err := http.ReadResponse(in, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return r, c, in
}

func (f *fronted) get(path string) commandtest.Reply {
	f.t.Helper()
	return commandtest.Send(f.t, http.MethodGet, f.url+path, "")
}

func limited(endpoint, limit string) string {
	return fmt.Sprintf(`{"version":1,"rules":[{"endpoint":%q,"limits":{"*":{%s}}}]}`, endpoint, limit)
}

const (
	plenty = `"name":"all","requests":1000,"window":"1m"`
)

// A request reaches the upstream as the client sent it, except for hop-by-hop fields.
func TestUpstream_request(t *testing.T) {
	const selected = `{"version":1,"rules":[{"endpoint":"*","limits":{"*":[{` + plenty + `},{"name":"runs","requests":9999,"window":"1m",
		"per":["client","header:x-run-id"]}]}},
		{"endpoint":"*","headers":{"x-plan":"a"},"limits":{"*":{"name":"plan","requests":9,"window":"1m"}}}]}`
	f := newFronted(t, Memory, selected, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s host=%s length=%d body=%s trailer=%s xff=%s proto=%s encoding=%s hop=%s%s agent=%s over=%s upgrade=%v "+
			"underscore=%v fields=%d", r.Method, r.RequestURI, r.Host, r.ContentLength, body, r.Trailer.Get("Sum"),
			strings.Join(r.Header["X-Forwarded-For"], "|"), r.Header.Get("X-Forwarded-Proto"), r.Header.Get("Accept-Encoding"),
			r.Header.Get("X-Hop"), r.Header.Get("Keep-Alive"), r.Header.Get("User-Agent"), r.Header.Get("Weir-Over"), r.Header["Upgrade"],
			r.Header["X_forwarded_for"], len(r.Trailer))
	})
	for _, target := range []string{"/a%2Fb", "//x", "/a//b/", "/%61", "/a/;v=1?q=1;2&b=%zz&a=a+b", "/x?", "/caf%C3%A9?caf%c3%a9", "/_weir"} {
		r, _, _ := f.raw("PATCH " + target + " HTTP/1.1\nHost: api.example\nConnection: close, X-Hop\nX-Hop: 1\nKeep-Alive: 5\nWeir-Over: " +
			"x\nX-Forwarded-For: 203.0.113.7\nX-Forwarded-Proto: https\nContent-Length: 2\n\nhi")
		text, err := io.ReadAll(r.Body)
		want := "PATCH " + target + " host=api.example length=2 body=hi trailer= xff=203.0.113.7, 127.0.0.1 proto=https encoding= hop= agent= " +
			"over= upgrade=[] underscore=[] fields=0"
		if err != nil || r.StatusCode != http.StatusOK || string(text) != want {
			t.Errorf("%s: got %s %q, error %v, want 200 %q", target, r.Status, text, err, want)
		}
		if r.Header.Get("X-RateLimit-Limit") != "1000" {
			t.Errorf("%s: got the fields %v, want a limit of 1000", target, r.Header)
		}
	}
	for _, field := range []string{"", "Authorization: Bearer x\n"} {
		r, _, _ := f.raw("POST / HTTP/1.1\nHost: h\nConnection: close\n" + field +
			"Transfer-Encoding: chunked\nTrailer: Sum\n\n2\nhi\n0\nSum: 7\n\n")
		if text, _ := io.ReadAll(r.Body); !strings.Contains(string(text), "length=-1 body=hi trailer=7") {
			t.Errorf("trailer, fields %q: got %s, want a chunked body and its trailer", field, text)
		}
	}
	r, _, _ := f.raw("POST / HTTP/1.1\nHost: h\nConnection: close\nTransfer-Encoding: chunked\nTrailer: Sum, X-Api-Key, " +
		"X_User, mcp-name, X-Plan, x-run-id\n\n2\nhi\n0\nSum: 7\nX-Api-Key: k\nX_User: u\nAuthorization: Bearer x\nMcp-Name: dear\nX-Plan: a\n" +
		"X-Run-Id: 2\n\n")
	if text, _ := io.ReadAll(r.Body); !strings.HasSuffix(string(text), "fields=1") || !strings.Contains(string(text), "trailer=7") {
		t.Errorf("trailer with credentials, and with fields of rules: got %s, want only the field Sum", text)
	}
	r, _, _ = f.raw("GET / HTTP/1.1\nHost: h\nConnection: close, Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: " +
		"AAMAAABk\nX_Forwarded_For: 1\n\n")
	if text, _ := io.ReadAll(r.Body); !strings.Contains(string(text), "upgrade=[] underscore=[]") {
		t.Errorf("upgrade to h2c, and a field with an underscore: got %s, want neither", text)
	}
	if r, _, _ := f.raw("GET /a/../b HTTP/1.1\nHost: h\n\n"); r.StatusCode != http.StatusBadRequest {
		t.Errorf("dot segments: got %s, want 400", r.Status)
	}
}

// An answer reaches the client as the upstream sent it, with the fields of the decision.
func TestUpstream_answer(t *testing.T) {
	f := newFronted(t, Memory, limited("*", plenty), func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Ratelimit", "mine")
		h.Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		h.Set("Trailer", "Sum")
		h.Set("Content-Encoding", "gzip")
		h.Set("Connection", "X-Hop")
		h.Set("X-Hop", "1")
		h.Add("Set-Cookie", "a=1")
		h.Add("Set-Cookie", "b=2")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "not gzip")
		h.Set("Sum", "7")
	})
	r, _, in := f.raw("GET / HTTP/1.1\nHost: h\nConnection: close\n\n")
	if r.StatusCode != http.StatusEarlyHints || r.Header.Get("Link") == "" || r.Header.Get("X-Ratelimit-Limit") != "" {
		t.Errorf("first answer: got %s %v, want 103 with Link alone", r.Status, r.Header)
	}
	r, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(r.Body)
	if r.StatusCode != http.StatusTeapot || string(text) != "not gzip" || r.Trailer.Get("Sum") != "7" {
		t.Errorf("answer: got %s %q, trailer %v, want 418, the body and the trailer", r.Status, text, r.Trailer)
	}
	for name, want := range map[string]string{"X-Ratelimit-Limit": "1000", "Ratelimit": "mine", "Ratelimit-Policy": "",
		"Set-Cookie": "a=1|b=2", "Content-Encoding": "gzip", "X-Hop": ""} {
		if got := strings.Join(r.Header[name], "|"); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if r, _, _ := f.raw("HEAD / HTTP/1.1\nHost: h\n\n"); r.StatusCode != http.StatusEarlyHints {
		t.Errorf("HEAD: got %s, want 103 first", r.Status)
	}
}

// Each part of an upload reaches the upstream at once, and each part of an answer the client: neither is buffered.
func TestUpstream_streams(t *testing.T) {
	const part = 8
	f := newFronted(t, Memory, limited("*", plenty), func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		switch r.URL.Path {
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
		case "/sized":
			w.Header().Set("Content-Length", strconv.Itoa(3*part))
		}
		for b := make([]byte, part); ; {
			if _, err := io.ReadFull(r.Body, b); err != nil {
				return
			}
			_, _ = w.Write(b)
			_ = http.NewResponseController(w).Flush()
		}
	})
	for _, path := range []string{"/events", "/sized", "/chunked"} {
		body, send := io.Pipe()
		parts := make(chan string, 3)
		parts <- "data: 1\n"
		go func() {
			defer func() { _ = send.Close() }()
			for text := range parts {
				_, _ = io.WriteString(send, text)
			}
		}()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+path, body)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 { // a part is sent when the echo of the one before has arrived
			b := make([]byte, part)
			if _, err := io.ReadFull(r.Body, b); err != nil || string(b) != fmt.Sprintf("data: %d\n", i+1) {
				t.Fatalf("%s: got part %q, error %v, want part %d", path, b, err, i+1)
			}
			if i < 2 {
				parts <- fmt.Sprintf("data: %d\n", i+2)
			}
		}
		close(parts)
		if rest, err := io.ReadAll(r.Body); err != nil || len(rest) > 0 {
			t.Errorf("%s: got %q, error %v after the last part, want the end", path, rest, err)
		}
		_ = r.Body.Close()
	}
}

const upgrade = "GET /ws HTTP/1.1\nHost: h\nConnection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: " +
	"dGhlIHNhbXBsZSBub25jZQ==\n\n"

// echo upgrades a connection as a WebSocket server does, and then returns each byte.
func echo(t *testing.T, w http.ResponseWriter, r *http.Request, fields string) {
	c, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = c.Close() }()
	_, _ = fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%s\r\n", r.Header.Get("Upgrade"), fields)
	_, _ = io.Copy(c, buffered)
}

// A WebSocket passes and counts as one request. Its cost is reported by the header of the upgrade. Over the limit, the
// answer is a 429 before the upgrade.
func TestUpstream_webSocket(t *testing.T) {
	var upgraded atomic.Int64
	f := newFronted(t, Memory, limited("/ws", `"name":"all","requests":10,"window":"1m","count":"cost","reserve":1`),
		func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Sec-Websocket-Key") == "" {
				t.Errorf("fields of the upgrade: got %v, want the client's", r.Header)
			}
			upgraded.Add(1)
			echo(t, w, r, "Weir-Cost: 10\r\n")
		})
	r, c, in := f.raw(upgrade)
	if r.StatusCode != http.StatusSwitchingProtocols || r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Weir-Cost") != "" ||
		r.Header.Get("X-Ratelimit-Remaining") != "9" {
		t.Fatalf("upgrade: got %s %v, want 101 with 9 remaining, without the cost", r.Status, r.Header)
	}
	for _, text := range []string{"hello", "again"} {
		b := make([]byte, 5)
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(in, b); err != nil || string(b) != text {
			t.Fatalf("echo: got %q, error %v, want %q", b, err, text)
		}
	}
	_ = c.Close()
	deadline, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for n := int64(1); ; n++ { // the cost is settled some time after the end of the connection
		r, c, _ := f.raw(upgrade)
		_ = c.Close()
		if r.StatusCode == http.StatusTooManyRequests && r.Header.Get("Retry-After") != "" {
			if upgraded.Load() != n {
				t.Errorf("got %d upgrades, want %d: the refused one must not reach the upstream", upgraded.Load(), n)
			}
			return
		}
		if deadline.Err() != nil {
			t.Fatalf("after a cost of the whole limit: got %s, want 429", r.Status)
		}
	}
}

// The upstream reports a cost in its header or in a trailer. The client does not get the report.
func TestUpstream_cost(t *testing.T) {
	f := newFronted(t, Memory, limited("*", `"name":"all","requests":100,"window":"1h","count":"cost","reserve":20`),
		func(w http.ResponseWriter, r *http.Request) {
			if len(r.Header["Weir-Cost"]) > 0 {
				t.Error("the upstream got a cost from the client, want none")
			}
			switch r.URL.Path {
			case "/header":
				w.Header().Set("Weir-Cost", "7")
			case "/trailer":
				w.Header().Set("Trailer", "Weir-Cost")
				_, _ = io.WriteString(w, "streamed")
				_ = http.NewResponseController(w).Flush()
				w.Header().Set("Weir-Cost", "9")
			}
		})
	for _, c := range []struct{ path, remaining string }{{"/header", "80"}, {"/trailer", "73"}, {"/none", "64"}, {"/header", "44"}} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.url+c.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Weir-Cost", "0")
		r := commandtest.Do(t, request)
		if r.Header.Get("X-Ratelimit-Remaining") != c.remaining || r.Header.Get("Weir-Cost")+r.Trailer.Get("Weir-Cost") != "" {
			t.Errorf("%s: got %v, trailer %v, want %s remaining and no cost", c.path, r.Header, r.Trailer, c.remaining)
		}
	}
}

// The cost in the answer of an upstream counts, with a fixed length and as a stream, and no header field of the upstream is needed.
func TestUpstream_from(t *testing.T) {
	f := newFronted(t, Memory, limited("*", `"name":"all","requests":1000,"window":"1h","count":"cost",
		"reserve":{"json":"max_tokens","default":300,"most":900},"from":{"json":"usage.total_tokens"}`),
		func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") != "" {
				t.Errorf("the upstream may use the encodings %q, want none", r.Header.Get("Accept-Encoding"))
			}
			body, _ := io.ReadAll(r.Body)
			switch r.URL.Path {
			case "/json":
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"usage":{"total_tokens":7}}`)
			case "/events":
				w.Header().Set("Content-Type", "text/event-stream")
				for _, part := range []string{`data: {"usage":null}`, `data: {"usage":{"total_tokens":9}}`, `data: [DONE]`} {
					_, _ = io.WriteString(w, part+"\n\n")
					_ = http.NewResponseController(w).Flush()
				}
			}
			_, _ = w.Write(body)
		})
	for _, c := range []struct{ path, body, remaining string }{
		{"/json", ``, "700"}, {"/events", `{"max_tokens":10}`, "983"}, {"/none", `{"max_tokens":20}`, "964"}, {"/json", `{}`, "664"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept-Encoding", "gzip, br")
		r := commandtest.Do(t, request)
		if r.Header.Get("X-Ratelimit-Remaining") != c.remaining || !strings.HasSuffix(r.Text, c.body) {
			t.Errorf("%s: got %v and %q, want %s remaining and the body at the end", c.path, r.Header, r.Text, c.remaining)
		}
		f.serving.Wait()
	}
	const want = `msg="no cost in the answer, so the reserve stays charged"`
	if log := f.log.String(); strings.Count(log, want) != 1 || strings.Contains(log, "reported no cost") {
		t.Errorf("log: got %s, want one line about /none", log)
	}
}

// The log warns once a minute of a server that reports no cost, whose requests keep their reserve.
func TestUpstream_costMissing(t *testing.T) {
	f := newFronted(t, Memory, limited("/chat", `"name":"tokens","requests":100,"window":"1h","count":"cost","reserve":20`),
		func(w http.ResponseWriter, r *http.Request) {
			if r.URL.RawQuery == "reported" {
				w.Header().Set("Weir-Cost", "1")
			}
		})
	f.get("/chat?reported")
	f.get("/other")
	if f.log.String() != "" {
		t.Errorf("log: got %s, want nothing about a reported cost", f.log)
	}
	const want = `level=WARN msg="the upstream reported no cost, so the reserve stays charged" limit=tokens field=Weir-Cost`
	for i, after := range []time.Duration{0, time.Minute - time.Second, time.Second} {
		f.Wait(after)
		f.get("/chat")
		f.serving.Wait() // the gateway writes the warning after the answer
		if n := strings.Count(f.log.String(), want); n != 1+i/2 {
			t.Errorf("request %d: got %d warnings in %s, want %d", i+1, n, f.log, 1+i/2)
		}
	}
}

// Express ignores the case of a path. The log has a note once, if rules name paths and do not ignore it.
func TestUpstream_express(t *testing.T) {
	for document, want := range map[string]int{
		limited("/v1/*", plenty): 1,
		limited("*", plenty):     0,
		strings.Replace(limited("/v1/*", plenty), `{`, `{"ignore_case":true,`, 1): 0,
	} {
		f := newFronted(t, Memory, document, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Powered-By", "Express") })
		f.get("/V1/chat")
		f.get("/v1/chat")
		if n := strings.Count(f.log.String(), "\n"); n != want || want > 0 && !strings.Contains(f.log.String(), "ignore_case") {
			t.Errorf("%s: got the log %s, want %d lines about ignore_case", document, f.log, want)
		}
	}
}

// If the upstream does not answer, the answer is 502 with the reason. The log has it once.
func TestUpstream_down(t *testing.T) {
	f := newFronted(t, Memory, limited("*", plenty), func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if r := commandtest.Send(t, http.MethodPost, f.url+"/", ""); r.StatusCode != http.StatusBadGateway ||
		!strings.Contains(r.Text, `"error":"upstream_failed","message":"The upstream gave no answer. The log has the reason."`) {
		t.Errorf("broken answer: got %s %s, want 502", r.Status, r.Text)
	}
	f.upstream.Close()
	for range 3 {
		r := f.get("/")
		if r.StatusCode != http.StatusBadGateway || !strings.Contains(r.Text, "upstream_failed") ||
			r.Header.Get("Content-Type") != "application/problem+json" || r.Header.Get("X-Ratelimit-Limit") != "1000" {
			t.Errorf("no server: got %s %v %s, want 502 with the limits", r.Status, r.Header, r.Text)
		}
	}
	if n := strings.Count(f.log.String(), "\n"); n < 1 || n > 3 || !strings.Contains(f.log.String(),
		`msg="the upstream gave no answer" upstream=`+f.upstream.URL+` err=EOF`) {
		t.Errorf("log: got %s, want at most one line a second", f.log)
	}
}

// A client that leaves is no failure of the server, before or after the header of the answer.
func TestUpstream_clientLeavesNoFailure(t *testing.T) {
	arrived := make(chan struct{}, 1)
	f := newFronted(t, Memory, limited("*", `"name":"f","requests":3,"window":"15m","count":"failures","failure_status":["5xx"]`),
		func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/free":
				return
			case "/answer":
				_ = http.NewResponseController(w).Flush()
			case "/header":
				arrived <- struct{}{}
			}
			<-r.Context().Done()
		})
	get := func(path string) (leave func(), r *http.Response, err error) {
		ctx, leave := context.WithCancel(t.Context())
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if path == "/header" {
			go func() { <-arrived; leave() }()
		}
		r, err = http.DefaultClient.Do(request)
		return leave, r, err
	}
	for range 3 {
		if _, r, err := get("/header"); err == nil {
			t.Fatalf("a client that left: got %s", r.Status)
		}
		leave, r, err := get("/answer")
		if err != nil {
			t.Fatal(err)
		}
		leave()
		_ = r.Body.Close()
	}
	for f.get("/free").Header.Get("X-Ratelimit-Remaining") != "2" { // the reserve of the request itself
		if t.Context().Err() != nil {
			t.Fatal("remaining: got less, want 2 some time after the clients have left")
		}
	}
}

// The upstream's own tokens reach it without a setting. Only a token that names the issuer of weir token is verified.
func TestUpstream_tokens(t *testing.T) {
	pass := func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Header.Get("Authorization")) }
	f := newFronted(t, Memory, limited("*", plenty), pass)
	payload := func(claims string) string { return base64.RawURLEncoding.EncodeToString([]byte(claims)) }
	for _, token := range []string{"opaque", "a.b.c", "a." + payload(`{"iss":"https://issuer.example"}`) + ".c"} {
		if r := commandtest.Send(t, http.MethodGet, f.url+"/", token); r.StatusCode != http.StatusOK || r.Text != "Bearer "+token {
			t.Errorf("token %s: got %s %s, want 200 and the token at the upstream", token, r.Status, r.Text)
		}
	}
	if log := f.log.String(); strings.Count(log, "pass unverified") != 1 || strings.Contains(log, "opaque") {
		t.Errorf("log: got %s, want one note and no token", log)
	}
	if r := commandtest.Send(t, http.MethodGet, f.url+"/", "a."+payload(`{"iss":"weir-local"}`)+
		".c"); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("forged token: got %s, want 401", r.Status)
	}
	t.Setenv("JWKS", "")
	f = newFronted(t, Memory, limited("*", plenty), pass)
	if r := commandtest.Send(t, http.MethodGet, f.url+"/", "opaque"); r.StatusCode != http.StatusOK || r.Text != "Bearer opaque" {
		t.Errorf("token with an empty JWKS: got %s %s, want 200 from the upstream", r.Status, r.Text)
	}
}

// With the settings of PROVIDERS.md, tokens of a Cognito user pool count by user and group, also without a scheme.
func TestUpstream_cognito(t *testing.T) {
	const issuer = "https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_Abc123"
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	set := storetest.Must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: "k", Algorithm: "EdDSA", Use: "sig"}}}))
	signer := storetest.Must(jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: private, KeyID: "k"}}, nil))
	file := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(file, set, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"JWKS": file, "JWT_ISSUER": issuer, "JWT_AUDIENCE": "web,mobile", "JWT_ALGORITHMS": "EdDSA",
		"TIER_CLAIM": "cognito:groups"} {
		t.Setenv(name, value)
	}
	f := newFronted(t, Memory, `{"version":1,"tiers":["gold","free"],"rules":[{"endpoint":"*","limits":{"gold":{"requests":50,"window":"1m"},
		"free":{"requests":5,"window":"1m"}}}]}`, func(http.ResponseWriter, *http.Request) {})
	for _, c := range []struct {
		scheme, claims string
		status         int
		left           string // of the limit of the tier
	}{
		{"Bearer ", `"sub":"a","token_use":"access","client_id":"mobile","cognito:groups":["x","free","gold"]`, http.StatusOK, "49"},
		{"", `"sub":"a","token_use":"id","aud":"web","cognito:username":"a","cognito:groups":["gold"]`, http.StatusOK, "48"},
		{"", `"sub":"b","token_use":"access","client_id":"web"`, http.StatusOK, "4"},
		{"", `"sub":"b","token_use":"access","client_id":"other"`, http.StatusUnauthorized, ""},
		{"Bearer ", `"sub":"b","aud":"other","client_id":"web"`, http.StatusUnauthorized, ""},
	} {
		claims := fmt.Sprintf(`{"iss":%q,"exp":%d,%s}`, issuer, start.Add(time.Hour).Unix(), c.claims)
		token := storetest.Must(storetest.Must(signer.Sign([]byte(claims))).CompactSerialize())
		r := storetest.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, f.url, http.NoBody))
		r.Header.Set("Authorization", c.scheme+token)
		answer := storetest.Must(http.DefaultClient.Do(r))
		_ = answer.Body.Close()
		if left := answer.Header.Get("X-RateLimit-Remaining"); answer.StatusCode != c.status || left != c.left {
			t.Errorf("%s: got %d, %s left, want %d, %s left", c.claims, answer.StatusCode, left, c.status, c.left)
		}
	}
	for _, c := range [][3]string{{"JWKS", "none.json", "JWKS: open none.json: no such file or directory"}, {"IDENTITY", "host",
		"IDENTITY: got host, want weir: no host on this machine verifies callers; set JWKS, JWT_ISSUER and JWT_AUDIENCE to verify their tokens"},
	} {
		t.Setenv(c[0], c[1])
		s := &Server{Options: Options{API: sample.New, Rules: f.rules, Out: io.Discard, Logger: slog.New(slog.DiscardHandler), Clock: f.Now,
			Upstream: Upstream{&url.URL{Scheme: "http", Host: "127.0.0.1:9"}}}}
		t.Cleanup(s.Close)
		if _, err := s.Open(t.Context()); err == nil || err.Error() != c[2] {
			t.Errorf("%s=%s: got %v, want %s", c[0], c[1], err, c[2])
		}
	}
}

func TestUpstream_Set(t *testing.T) {
	for _, text := range []string{"http://127.0.0.1:3000", "https://api.example", "http://[::1]:3000/"} {
		if err := new(Upstream).Set(text); err != nil {
			t.Errorf("%s: got error %v, want none", text, err)
		}
	}
	for _, text := range []string{"", "3000", "localhost:3000", "127.0.0.1:3000", "ftp://h", "http://h/a", "http://h/?a", "http://u:p@h",
		"http://"} {
		if err := new(Upstream).Set(text); err == nil {
			t.Errorf("%s: got no error, want one", text)
		}
	}
}

// A page of a listed origin can read a refusal and its fields. A preflight is free, and does not reach the upstream. The upstream
// adds to Vary and to the fields that pages can read.
func TestUpstream_cors(t *testing.T) {
	t.Setenv("CORS_ORIGINS", "https://app.example")
	f := newFronted(t, Memory, limited("*", `"name":"all","requests":1,"window":"1h"`), func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodOptions {
			t.Error("got a preflight, want none")
		}
		w.Header().Set("Vary", "Accept")
		w.Header().Set("Access-Control-Expose-Headers", "X-Mine")
	})
	for i, want := range []string{"204 false Origin, Access-Control-Request-Method, Access-Control-Request-Headers", "200 true Accept,Origin",
		"429 true Origin"} {
		r := storetest.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, f.url, http.NoBody))
		r.Header.Set("Origin", "https://app.example")
		if i == 0 {
			r.Method = http.MethodOptions
			r.Header.Set("Access-Control-Request-Method", http.MethodGet)
		}
		got := commandtest.Do(t, r)
		exposed := strings.Join(got.Header["Access-Control-Expose-Headers"], ",")
		text := fmt.Sprintf("%d %t %s", got.StatusCode, strings.Contains(exposed, "Retry-After"), strings.Join(got.Header["Vary"], ","))
		if text != want || got.Header.Get("Access-Control-Allow-Origin") != "https://app.example" ||
			(i == 1) != strings.Contains(exposed, "X-Mine") {
			t.Errorf("request %d: got %s %v, want %s", i, text, got.Header, want)
		}
	}
}
