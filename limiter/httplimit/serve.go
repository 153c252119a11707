package httplimit

import (
	"context"
	"net/http"
	"time"

	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/outcome"
	"github.com/weir-limits/weir/limiter/rules"
)

// Wrap returns next behind the limits, as a middleware for net/http: for an HTTP API, a function
// URL, a load balancer or a server of your own.
//
// next gets requests with the path that was charged: decoded, without a slash at the end, and with
// an empty RawPath. So a ServeMux runs no pattern of other rules; register "/files" as well as
// "/files/".
func (g *Gate) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.Serve(w, r, NewRequest(r), next) })
}

// NewRequest returns what a Gate reads of r. The address is that of the connection's peer: behind
// a proxy set another one, such as that of caller.LastHop.
func NewRequest(r *http.Request) Request {
	return Request{Method: r.Method, Path: rules.URLPath(r.URL), Header: r.Header, Address: caller.ParseAddress(r.RemoteAddr)}
}

// Serve decides a request that was read from r, and answers it or passes it to next.
func (g *Gate) Serve(w http.ResponseWriter, r *http.Request, request Request, next http.Handler) {
	result := g.Decide(r.Context(), request)
	switch {
	case result.Class() != outcome.Allowed:
		result.Answer.Refuse(w)
		return
	case !wait(r.Context(), min(result.Decision.Delay, g.o.MaxDelay)):
		result.Answer.Problem = queueLeft()
		result.Answer.Refuse(w)
		return
	}
	result.Answer.SetHeader(w.Header())
	next.ServeHTTP(w, routed(r, request.Path))
}

// wait waits for the delay. It reports false if ctx ends before.
func wait(ctx context.Context, delay time.Duration) bool {
	if delay <= 0 {
		return true
	}
	turn := time.NewTimer(delay)
	defer turn.Stop()
	select {
	case <-turn.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// routed returns r with the path that was charged and no other spelling of it.
func routed(r *http.Request, path rules.Path) *http.Request {
	if r.URL.RawPath == "" && r.URL.Path == path.String() {
		return r
	}
	u, copied := *r.URL, *r
	u.Path, u.RawPath = path.String(), ""
	copied.URL = &u
	return &copied
}
