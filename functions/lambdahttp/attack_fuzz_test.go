package lambdahttp_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

var anyKey = regexp.MustCompile(`^(user:alice|claim:org=[A-Za-z0-9_.@+,/:%~-]{1,128}|ip:([0-9a-f.:/]+|unknown))$`)

// FuzzAttack_request searches for three attacks: exceeding a limit, writing the keys of another
// caller, and calling the search by a path that the rules do not match. Each input has a new store,
// because an exhausted limit would hide later attacks.
func FuzzAttack_request(f *testing.F) {
	a := newTarget(f)
	token := a.token(f, map[string]any{"sub": "alice", "org": "acme"})
	for _, path := range []string{"/api/v1/search", "/api/v1/%73earch/", "//api//v1/./search", "/api%2Fv1%2Fsearch", "/api/v1/search;x",
		"/api/v1/x/..%2Fsearch", "*", "/%"} {
		f.Add(uint8(0), "GET", path, "203.0.113.7", "", "", "198.51.100.1")
		f.Add(uint8(1), "HEAD", path, "::ffff:203.0.113.7", token, "", "")
		f.Add(uint8(2), "get", path, "2001:db8::1", "", caller.NewAPIKey(), "1.1.1.1, 2.2.2.2")
		f.Add(uint8(3), "POST", path, "", "Bearer a.b.c", "x", ",")
	}
	f.Fuzz(func(t *testing.T, host uint8, method, path, address, authorization, key, forwarded string) {
		a := a.fresh(t)
		h, auth := lambdahttp.NewHandler(a.Environment, sample.New(a.Environment)), lambdahttp.NewAuthorizer(a.Environment)
		headers := map[string]string{"authorization": authorization, "x-api-key": key, "x-forwarded-for": forwarded}
		event := map[string]any{"type": "REQUEST", "httpMethod": method, "path": path, "headers": headers,
			"requestContext": map[string]any{"identity": map[string]string{"sourceIp": address}}}
		switch host % 4 {
		case 1:
			event = map[string]any{"version": "2.0", "rawPath": path, "headers": headers,
				"requestContext": map[string]any{"http": map[string]string{"method": method, "sourceIp": address}}}
		case 2:
			headers["x-forwarded-for"] += ", " + address
			event["requestContext"] = map[string]any{"elb": map[string]string{}}
		}
		payload, err := json.Marshal(event)
		if err != nil {
			t.Skip(err)
		}
		function := h
		if host%4 == 3 {
			function = auth
		}
		answered, err := function.Invoke(ctx, payload)
		if err == nil && !json.Valid(answered) {
			t.Fatalf("answer: got %q, want JSON", answered)
		}
		for _, subject := range a.wrote() {
			if !anyKey.MatchString(subject) || strings.HasPrefix(subject, "user:") && authorization == "" {
				t.Errorf("wrote %q, want only keys of the caller", subject)
			}
		}
		if n := len(a.wrote()); n > 3 {
			t.Errorf("wrote %d items, want at most 3: %v", n, a.wrote())
		}
		var got answer
		if host%4 == 3 || json.Unmarshal(answered, &got) != nil || !strings.Contains(got.Body, `"results"`) {
			return
		}
		if limit := got.header("X-RateLimit-Limit"); limit != "5" || len(a.wrote()) == 0 {
			t.Errorf("path %q ran the search: got limit %q and writes %v, want limit 5 and a write", path, limit, a.wrote())
		}
	})
}

// fresh returns a copy of a with an empty store.
func (a *target) fresh(t testing.TB) *target {
	t.Helper()
	e, store := *a.Environment, &counting{Store: storetest.Must(memstore.New(memstore.Options{}))}
	e.Limiter = environment(t, store).Limiter
	return &target{Environment: &e, store: store, key: a.key}
}
