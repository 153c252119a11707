package lambdaenv

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// FuzzEnvironment_runtimeAPI searches for a call that crashes the Runtime API. It also searches for an
// answer that the Runtime API accepts although its request is not pending.
func FuzzEnvironment_runtimeAPI(f *testing.F) {
	for _, id := range []string{"r1", "", "init", "r2", "../x", "r1%00"} {
		for _, path := range []string{"/2018-06-01/runtime/invocation/" + id + "/response", "/2018-06-01/runtime/invocation/" + id + "/error", "/2018-06-01/runtime/init/error", "/2018-06-01/runtime/invocation/next", "/", "*"} {
			f.Add("POST", path, []byte(`{"errorMessage":"m","errorType":"t","stackTrace":[{"path":"p","line":1,"label":"l"}]}`))
		}
	}
	f.Add("POST", "/2018-06-01/runtime/invocation/r1/error", []byte(`{"errorMessage":{}`))
	gone, hangUp := context.WithCancel(context.Background())
	hangUp()
	f.Fuzz(func(t *testing.T, method, path string, body []byte) {
		e := &Environment{ready: make(chan struct{}), events: make(chan invocation), pending: map[string]request{}, ended: make(chan struct{})}
		answered := e.expect("r1", nil)
		r, err := http.NewRequestWithContext(gone, method, "http://x/", strings.NewReader(string(body)))
		if err != nil {
			return
		}
		r.URL.Path = path
		w := httptest.NewRecorder()
		e.runtimeAPI().ServeHTTP(w, r)
		accepted := len(answered) == 1
		if ours := strings.Contains(path, "r1"); accepted && (!ours || len(e.pending) != 0 || w.Code != http.StatusAccepted) {
			t.Errorf("%s %q: got an outcome with status %d and pending requests %v, want an outcome only for request r1, with status 202 and no pending request", method, path, w.Code, e.pending)
		}
		if accepted {
			if o := <-answered; o.err == nil && string(o.answer) != string(body) {
				t.Errorf("answer: got %q, want the body %q", o.answer, body)
			}
		}
	})
}
