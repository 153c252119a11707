package gateway_test

import (
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/local/gateway"
)

// The back end is a language model that reports the tokens of each answer. The limits count exactly
// these tokens and refuse a caller who has used all of them.
func TestCount_tokens(t *testing.T) {
	var fromClient string // Weir-Cost of the last request that the back end received
	model := func(w http.ResponseWriter, r *http.Request) {
		fromClient = r.Header.Get("Weir-Cost")
		w.Header().Set("Weir-Cost", r.Header.Get("Tokens"))
		_, _ = io.WriteString(w, "text")
	}
	onEach(t, example(t, "llm.json"), model, func(t *testing.T, r *ruled) {
		ask := func(status int, tokens string) answer {
			t.Helper()
			return r.want(t, "POST /v1/chat", []int{status}, "X-Api-Key: key-alice", "Tokens: "+tokens, "Weir-Cost: 0")
		}
		used := func(when string, calls, input, output, month int64) {
			t.Helper()
			want := map[string]int64{"calls": calls, "input": input, "output": output, "month": month}
			if got := r.used(t, "/v1/chat", caller.Caller{APIKey: "alice"}); !maps.Equal(got, want) {
				t.Errorf("%s: usage: got %v, want %v", when, got, want)
			}
		}
		first := ask(200, "input=812, output=95, month=907")
		if got := first.header.Get("Weir-Cost"); got != "" || fromClient != "" {
			t.Errorf("first question: the client got Weir-Cost %q, and the API got %q from the client; want none", got, fromClient)
		}
		used("after a question", 1, 812, 95, 907)
		ask(200, "input=9000, output=0, month=9000")
		used("above one reserve and below the others", 2, 9812, 95, 9907)
		ask(200, "input=85000, output=5000, month=90000")
		if a := ask(429, "input=1, output=1, month=2"); !strings.Contains(a.body, `"input"`) {
			t.Errorf("request whose reserve exceeds the limit input: got %s, want a refusal by the limit input", a.body)
		}
		refused := int64(0)
		if r.kind == gateway.REST { // the authorizer has counted the request that the handler refuses
			refused = 1
		}
		used("after a refusal", 3+refused, 94812, 5095, 99907)

		if calls, settles := r.calls.Load(), r.settles.Load(); r.kind == gateway.HTTP && calls != 4 || settles != 3 {
			t.Errorf("three admitted questions and a refused one: got %d charges and %d settlements, want 4 charges and 3 settlements", calls,
				settles)
		}

		r.now = r.now.Add(2 * time.Minute)
		ask(200, "")
		if settles := r.settles.Load(); settles != 3 {
			t.Errorf("answer without a report of tokens: got %d settlements, want none", settles-3)
		}
		used("without a report", 1, 8000, 4000, 111907)
		r.want(t, "POST /v1/chat", times(59, 200), "X-Api-Key: key-alice", "Tokens: 0")
		if a := ask(429, "0"); !strings.Contains(a.body, `"calls"`) {
			t.Errorf("question 61 of a minute: got %s, want a refusal by calls", a.body)
		}
		used("after 60 questions in a minute", 60, 8000, 4000, 111907)

		r.now = r.now.Add(2 * time.Minute)
		ask(200, "input=1, output=1, month=1889000")
		used("in debt for the month", 1, 1, 1, 2000907)
		r.now = r.now.Add(55*time.Minute + 59*time.Second)
		if a := ask(429, "0"); !strings.Contains(a.body, `"month"`) || a.header.Get("Retry-After") != "1" {
			t.Errorf("in the last second of the month: got %s, Retry-After %s, want a refusal by month for a second", a.body,
				a.header.Get("Retry-After"))
		}
		r.now = r.now.Add(time.Second)
		ask(200, "input=1, output=1, month=2")
		used("in the next month", 1, 1, 1, 2)
	})
}
