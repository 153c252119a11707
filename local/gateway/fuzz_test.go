package gateway_test

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"
	"github.com/weir-limits/weir/local/gateway"
	"github.com/weir-limits/weir/local/gateway/template"
	"github.com/weir-limits/weir/local/gateway/template/templatetest"
)

// FuzzTemplate searches for a template that crashes the parser, or that the parser accepts although
// its APIs cannot serve requests.
func FuzzTemplate(f *testing.F) {
	for _, pattern := range []string{"template/testdata/good/*.json", "template/testdata/bad/*.json"} {
		for _, path := range templatetest.Glob(f, pattern) {
			if document := templatetest.Read(f, path); len(document) < 8<<10 { // mutations of a long document are slow and rarely valid
				f.Add(document)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		parsed, err := template.Parse(data)
		if err != nil {
			if parsed != nil || err.Error() == "" {
				t.Errorf("rejected template: got template %+v and error %q, want no template and an error text", parsed, err)
			}
			return
		}
		all := functions{}
		for _, function := range parsed.Functions() {
			all[function.ID] = says(`{"statusCode":200}`)
		}
		g, err := gateway.New(parsed, gateway.Options{Functions: all, Clock: frozen, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatalf("gateway of an accepted template: got error %v, want none", err)
		}
		for _, api := range g.APIs() {
			for _, method := range []string{"GET", "OPTIONS"} {
				r := request(t, method, "/", http.NoBody)
				r.Header.Set("Origin", "https://one.example")
				r.Header.Set("Access-Control-Request-Method", "GET")
				if got := do(api, r); got.status < 200 {
					t.Errorf("%s: got status %d, want 200 or more", method, got.status)
				}
			}
		}
	})
}

// FuzzRequest searches for a request that crashes the gateway, or that the gateway changes before a
// function receives it.
func FuzzRequest(f *testing.F) {
	f.Add("GET", "/open/a%2Fb//c/", "q=1&q=%20", "X-Forwarded-For", "203.0.113.9", []byte("body"))
	f.Add("POST", "//open/%3F", "a;b", "Cookie", "a=1; ;b", []byte{0xff})
	f.Add("PUT", "/items/%ff/parts/+", "%zz", "Content-Type", "image/png", []byte{})
	f.Add("OPTIONS", "*", "", "Host", "x", []byte{})
	templates := map[gateway.Kind]*template.Template{gateway.REST: templatetest.Parse(f, "template/testdata/good/plain.json"), gateway.HTTP: templatetest.Parse(f, "template/testdata/good/http.json")}
	f.Fuzz(func(t *testing.T, method, path, query, name, value string, body []byte) {
		line := method + " " + path + "?" + query + " HTTP/1.1\r\nHost: api.example.com\r\n" + name + ": " + value + "\r\n\r\n"
		for kind, parsed := range templates {
			r := readRequest(line, body)
			if r == nil {
				t.Skip("not an HTTP request")
			}
			function := says(`{"statusCode":200}`)
			api := apiOf(t, parsed, kind, functions{"Function": function, "Guard": function, "Slow": function}, frozen)
			sent := r.URL.EscapedPath()
			got := do(api, r)
			if got.status < 200 || got.status > 599 {
				t.Fatalf("status: got %d, want 200 to 599", got.status)
			}
			if function.calls() == 0 {
				continue
			}
			if kind == gateway.REST {
				checkREST(t, function, sent, body)
				continue
			}
			event := decode[events.APIGatewayV2HTTPRequest](t, function.event(t))
			if !strings.HasPrefix(event.RawPath, "/v2/") || event.RequestContext.HTTP.Path != event.RawPath ||
				!strings.HasSuffix(event.Headers["x-forwarded-for"], event.RequestContext.HTTP.SourceIP) {
				t.Errorf("%q: got event %+v, want a RawPath below /v2/ in both fields, and the source address last in x-forwarded-for", line, event)
			}
		}
	})
}

func checkREST(t *testing.T, function *stub, sent string, body []byte) {
	t.Helper()
	event := decode[events.APIGatewayProxyRequest](t, function.event(t))
	if strings.HasPrefix(sent, "/") && event.Path != "/"+strings.TrimLeft(sent, "/") {
		t.Errorf("path: got %q, want %q with one leading slash", event.Path, sent)
	}
	if !strings.HasPrefix(event.RequestContext.Path, "/test/") {
		t.Errorf("RequestContext.Path: got %q, want the stage first", event.RequestContext.Path)
	}
	if !strings.HasSuffix(event.Headers["X-Forwarded-For"], event.RequestContext.Identity.SourceIP) {
		t.Errorf("X-Forwarded-For: got %q, want the source address last", event.Headers["X-Forwarded-For"])
	}
	if utf8.Valid(body) && !event.IsBase64Encoded && event.Body != string(body) {
		t.Errorf("body: got %q, want %q", event.Body, body)
	}
}

// readRequest parses a request as a server does. It returns nil if a server would reject it.
func readRequest(head string, body []byte) *http.Request {
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head)))
	if err != nil {
		return nil
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.RemoteAddr = "192.0.2.7:1234"
	return r
}
