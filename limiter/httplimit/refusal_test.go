package httplimit_test

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/storetest"
)

// A refusal has the form of the rule. In JSON-RPC, it has the id of the request.
func TestGate_refusal(t *testing.T) {
	const limits = `"limits":{"*":{"name":"all","requests":1,"window":"1h","algorithm":"token_bucket"}}`
	rpc := func(id string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32029,"message":"Too many requests. Retry after `
	}
	for _, c := range []struct {
		form, body, contentType, begin, end string
	}{
		{"problem", "", "application/problem+json", `{"type":"https://iana.org/assignments/`, `"violated-policies":["all"]}`},
		{"openai", "", "application/json", `{"error":{"message":"Too many requests. Retry after 36`,
			`","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded","retry_after":W}}`},
		{"json-rpc", `{"jsonrpc":"2.0","method":"tools/call","id":"a\"b"}`, "application/json", rpc(`"a\"b"`), `"violated-policies":["all"]}}}`},
		{"json-rpc", `{"id": 7}`, "application/json", rpc("7"), `}}}`},
		{"json-rpc", "", "application/json", rpc("null"), `}}}`},
		{"json-rpc", `[{"id":7}]`, "application/json", rpc("null"), `}}}`},
		{"json-rpc", `{"id":{"a":7}}`, "application/json", rpc("null"), `}}}`},
		{"json-rpc", `{"id":"` + strings.Repeat("x", 128) + `"}`, "application/json", rpc("null"), `}}}`},
		{"json-rpc", `{"id":7,"x":"` + strings.Repeat("x", 64<<10) + `"}`, "application/json", rpc("null"), `}}}`},
	} {
		gate := storetest.Must(httplimit.FromDocument([]byte(`{"refusal":"` + c.form + `","rules":[{"endpoint":"*",` + limits + `}]}`)))
		h := gate.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		var w *httptest.ResponseRecorder
		for range 2 {
			w = httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(c.body)))
		}
		got, wait := w.Body.String(), w.Header().Get("Retry-After")
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Content-Type") != c.contentType || !strings.HasPrefix(got, c.begin) ||
			!strings.HasSuffix(got, strings.Replace(c.end, "W", wait, 1)) || !strings.Contains(got, `"retry_after":`+wait) ||
			!json.Valid([]byte(got)) {
			t.Errorf("%s %.40s: got %d %s %s, want 429 %s %s…%s", c.form, c.body, w.Code, w.Header().Get("Content-Type"), got, c.contentType,
				c.begin, c.end)
		}
		body := &reading{}
		waiting := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body)
		waiting.Header.Set("Expect", "100-continue")
		h.ServeHTTP(httptest.NewRecorder(), waiting)
		if body.read {
			t.Errorf("%s: asked a client that waits for 100 (Continue) for its body, want a refusal without it", c.form)
		}
	}
}

// The group of an error follows its status.
func TestProblem_Body(t *testing.T) {
	for status, want := range map[int]string{400: "invalid_request_error -32600", 401: "invalid_request_error -32600",
		429: "rate_limit_error -32029", 503: "server_error -32603"} {
		p := httplimit.Problem{Status: status}
		kind, code, _ := strings.Cut(want, " ")
		_, openAI := p.Body("openai", nil)
		_, rpc := p.Body("json-rpc", nil)
		if !strings.Contains(string(openAI), `"type":"`+kind+`"`) || !strings.Contains(string(rpc), `"id":null,"error":{"code":`+code) {
			t.Errorf("%d: got %s and %s, want %s", status, openAI, rpc, want)
		}
	}
}

// A client that sends its body slowly or only on demand gets its refusal, in json-rpc without the id.
func TestGate_refusal_slow(t *testing.T) {
	for form, want := range map[string]string{"json-rpc": `"id":null`, "problem": `"status":429`, "openai": `"rate_limit_error"`} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			gate := storetest.Must(httplimit.FromDocument([]byte(`{"refusal":"` + form + `","rules":[
				{"endpoint":"*","limits":{"*":{"name":"all","requests":1,"window":"1h"}}}]}`)))
			server := httptest.NewServer(gate.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
			defer server.Close()
			for i, expect := range []string{"", "", "100-continue"} {
				body, held := io.Pipe()
				if i == 0 {
					_ = held.Close()
				}
				r := storetest.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body))
				r.Header.Set("Expect", expect)
				begun := time.Now()
				answer, err := http.DefaultClient.Do(r)
				_ = held.Close()
				if err != nil {
					t.Fatal(err)
				}
				text, _ := io.ReadAll(answer.Body)
				_ = answer.Body.Close()
				if i > 0 && (!strings.Contains(string(text), want) || time.Since(begun) > 5*time.Second) {
					t.Errorf("request %d: got %d %s after %s, want a refusal with %s", i, answer.StatusCode, text, time.Since(begun), want)
				}
			}
		})
	}
}

// The body decides for every method that reaches the back end: a preflight, and a request of another method than POST, is no way
// around the limits of tools. Without a body, only the fields count. A method in lower case counts like the method, because Flask and
// Django serve it so. Each case is sent 3 times; the limits allow 1 call.
func TestGate_calls(t *testing.T) {
	const document = `{"rules":[
		{"endpoint":"/mcp","headers":{"mcp-method":"tools/call","mcp-name":["cheap","dear"]},"limits":{"*":{"requests":1,"window":"1h"}}},
		{"endpoint":"/any","headers":{"mcp-name":"*"},"limits":{"*":{"name":"named","requests":1,"window":"1h"}}},
		{"endpoint":"/post","method":"POST","headers":{"mcp-name":"dear"},"limits":{"*":{"name":"post","requests":1,"window":"1h"}}},
		{"endpoint":"/tried","mode":"shadow","headers":{"mcp-name":"dear"},"limits":{"*":{"requests":1,"window":"1h"}}}]}`
	call, tool := `{"method":"tools/call","params":{"name":"dear"}}`, []string{"Mcp-Method", "tools/call", "Mcp-Name", "dear"}
	asking := []string{httplimit.PreflightField, "POST"}
	const limited, mismatch, free = "200 429 429", "call_mismatch", "200 200 200"
	for _, c := range []struct {
		methods, body string
		fields        []string
		want          string // the answers, or the error of 400
		path          string // "" means /mcp
	}{
		{"OPTIONS POST PUT GET DELETE PATCH HEAD", call, nil, limited, ""},
		{"OPTIONS POST PUT GET DELETE PATCH HEAD", call, asking, limited, ""},
		{"OPTIONS PUT GET", call, append(tool, asking...), limited, ""},
		{"OPTIONS PUT GET", call, append(asking, "Mcp-Method", "tools/call", "Mcp-Name", "cheap"), mismatch, ""},
		{"OPTIONS POST PUT GET", `{"method":"tools/call","params":{"name":"other"}}`, asking, "unlisted_tool", ""},
		{"OPTIONS POST PUT GET", `[` + call + `]`, asking, "unreadable_call", ""},
		{"OPTIONS POST PUT GET", call, append(tool, "Mcp-Name", "dear"), "malformed_field", ""},
		{"OPTIONS PUT GET DELETE", "", asking, free, ""},
		{"OPTIONS PUT GET DELETE", "", append(tool, asking...), limited, ""},
		{"OPTIONS PUT GET", "", []string{"Mcp-Method", "tools/call", httplimit.PreflightField, "POST"}, "unlisted_tool", ""},
		{"POST", "", nil, "unreadable_call", ""},
		{"POST GET", `{"method":"initialize"}`, []string{"Mcp-Name", "dear"}, mismatch, ""},
		{"POST GET", `{"method":"initialize"}`, []string{"Mcp-Name", ""}, free, "/any"},
		{"POST GET", call, append(tool, "Mcp-Method", "tools/call"), mismatch, "/any"},
		{"POST GET", `{"method":"tools/call"}`, tool, mismatch, ""},
		{"POST", `{"id":1,"result":{}}`, []string{"Mcp-Name", "dear"}, mismatch, ""},
		{"POST", `{"id":1,"error":{}}`, nil, free, ""},
		{"POST post", call, nil, limited, "/post"},
		{"POST PUT", `[` + call + `]`, nil, free, "/tried"},
		{"POST PUT", call, []string{"Mcp-Name", "cheap"}, free, "/tried"},
		{"POST PUT", call, append(tool, "Mcp-Name", "dear"), free, "/tried"},
		{"POST", strings.Repeat(" ", 1<<20) + call, nil, free, "/tried"},
		{"POST", strings.Repeat(" ", 1<<20) + call, nil, "unreadable_call", ""},
	} {
		for method := range strings.SplitSeq(c.methods, " ") {
			gate := storetest.Must(httplimit.FromDocument([]byte(document)))
			h := gate.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if body, _ := io.ReadAll(r.Body); string(body) != c.body {
					t.Errorf("%s %s: the back end got the body %q", method, c.body, body)
				}
			}))
			got := ""
			for i := range 3 {
				r := httptest.NewRequestWithContext(t.Context(), method, cmp.Or(c.path, "/mcp"), strings.NewReader(c.body))
				r.ContentLength = -1 // chunked
				r.Header.Set("Content-Type", "application/json")
				for i := 0; i < len(c.fields); i += 2 {
					r.Header.Add(c.fields[i], c.fields[i+1])
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if w.Code == http.StatusBadRequest && i == 0 {
					var problem struct{ Error string }
					_ = json.Unmarshal(w.Body.Bytes(), &problem)
					got = problem.Error
					break
				}
				got = strings.TrimSpace(got + " " + strconv.Itoa(w.Code))
			}
			if got != c.want {
				t.Errorf("%s %s %q: got %s, want %s", method, c.body, c.fields, got, c.want)
			}
		}
	}
}
