package rules_test

import (
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/rules"
)

// The form of a refusal is that of the first rule for the request that has one, or else of the document.
func TestRules_Select_refusal(t *testing.T) {
	const some = `"limits":{"*":` + limit + `}`
	document := `{"refusal":"openai","rules":[{"endpoint":"*",` + some + `},{"endpoint":"/mcp","method":"POST","refusal":"json-rpc",` + some +
		`},{"endpoint":"/mcp","refusal":"problem","limits":{"*":{"name":"b","requests":9,"window":"1m"}}}]}`
	r := parse(t, document)
	for _, c := range []struct{ method, path, want string }{{"GET", "/v1/chat", "openai"}, {"POST", "/mcp", "json-rpc"},
		{"GET", "/mcp", "problem"}, {"GET", "/%zz", "openai"}} {
		if got := r.Select(nil, rules.Request{Method: c.method, Path: rules.EncodedPath(c.path)}).Refusal; got != c.want {
			t.Errorf("%s %s: got %q, want %q", c.method, c.path, got, c.want)
		}
	}
	if got := notes(t, document, "the form of the document, openai"); len(got) != 2 || r.Refusal() != "openai" {
		t.Errorf("got the form %s and the notes %q, want openai and a note on each rule with another form", r.Refusal(), got)
	}
	if got := parse(t, `{"rules":[]}`).Refusal(); got != "problem" {
		t.Errorf("default: got %q, want problem", got)
	}
	_, err := rules.Parse([]byte(`{"refusal":"open-ai","rules":[]}`), rules.Options{})
	if err == nil || !strings.Contains(err.Error(), `refusal: got "open-ai", want problem, openai or json-rpc (did you mean "openai"?)`) {
		t.Errorf("unknown form: got %v", err)
	}
}
