package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-limits/weir/local/gateway"
)

// With limits by the tools of an MCP server, a client gets no more without the fields, with encoded ones, or with those of
// another tool: the handler compares them with the body, also behind the authorizer, which cannot.
func TestTools(t *testing.T) {
	const limits = `{"rules":[
		{"endpoint":"/v1/mcp","method":"POST","headers":{"mcp-method":"tools/call","mcp-name":"search_*"},
			"limits":{"*":{"name":"search","requests":2,"window":"1h"}}},
		{"endpoint":"/v1/mcp","method":"POST","headers":{"mcp-method":"tools/call","mcp-name":["render"]},
			"limits":{"*":{"name":"render","requests":1,"window":"1h"}}}]}`
	var got string
	api := func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = string(body)
	}
	call := func(tool string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `"}}`
	}
	const method, over = "Mcp-Method: tools/call", "rate_limit_exceeded"
	onEach(t, limits, api, func(t *testing.T, r *ruled) {
		ask := func(user, body string, rest, web int, code string, fields ...string) {
			t.Helper()
			want := web
			if r.kind == gateway.REST {
				want = rest
				if rest == 429 && code != over { // the authorizer refuses what it cannot compare with the body
					code = "unlisted_tool"
				}
			}
			got = ""
			a := send(t, r.api, "POST", "/v1/mcp", body, append(fields, "X-Api-Key: key-"+user, "Content-Type: application/json")...)
			if a.status != want || want != 200 && !strings.Contains(a.body, `"error":"`+code+`"`) || want == 200 && got != body {
				t.Errorf("%s %q by %s: got %d %s and the body %q, want %d", body, fields, user, a.status, a.body, got, want)
			}
		}
		ask("a", call("search_a"), 200, 200, "", method, "Mcp-Name: search_a")
		ask("a", call("search_b"), 200, 200, "", method, "Mcp-Name: =?base64?c2VhcmNoX2I=?=")
		ask("a", call("search_a"), 429, 429, over, method, "Mcp-Name: search_a")
		ask("a", call("search_c"), 429, 429, over, method, "Mcp-Name: =?base64?c2VhcmNoX2M=?=")
		ask("a", call("render"), 200, 200, "", method, "Mcp-Name: render")
		ask("a", call("render"), 429, 429, over, method, "Mcp-Name: render")
		ask("b", call("render"), 400, 400, "call_mismatch", method, "Mcp-Name: search_a")
		ask("b", call("render"), 429, 400, "call_mismatch", method, "Mcp-Name: delete")
		ask("b", call("delete"), 429, 400, "unlisted_tool", method, "Mcp-Name: delete")
		ask("b", call("render"), 400, 400, "call_mismatch", "Mcp-Method: initialize")
		ask("b", "["+call("render")+"]", 400, 400, "unreadable_call", method, "Mcp-Name: search_b")
		ask("d", call("search_b"), 400, 400, "unreadable_call", method, "Mcp-Name: search_b", "Content-Encoding: br")
		ask("b", `{"id":1,"method":"initialize"}`, 200, 200, "", "Mcp-Method: initialize")
		ask("b", `{"id":1,"result":{}}`, 200, 200, "", "Mcp-Method: ")
		ask("c", call("render"), 429, 200, "unlisted_tool") // an older client
		if r.kind == gateway.HTTP {
			ask("c", call("render"), 429, 429, over)
		}
		ask("c", `{"id":1,"method":"initialize"}`, 429, 200, "unlisted_tool")
		ask("c", call("search_a")+strings.Repeat(" ", 1<<20), 400, 400, "unreadable_call", method, "Mcp-Name: search_a")
	})
}
