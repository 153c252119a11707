package httplimit

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// Wrap returns a handler for net/http that enforces the limits before it calls the handler next. It serves an
// HTTP API, a function URL, a load balancer or a server.
//
// The handler next gets a request as it came, with its own path. However the handler reads the path, the request
// is charged on the limits that rules select for this reading; see rules.Path.
//
// If next is a reverse proxy, it MUST NOT pass an upgrade to another protocol than WebSocket: through h2c, a client could
// send requests that nobody counts. It SHOULD drop fields with an underscore, which WSGI merges with those with a hyphen,
// and trailers with the names of credentials or of fields by which rules select or count.
// [github.com/weir-limits/weir/local/serve] does all of it.
func (g *Gate) Wrap(next http.Handler) http.Handler {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request := NewRequest(r)
		request.Address = g.client(r, request.Address)
		g.Serve(w, r, request, next)
	})
	if g.cors != nil {
		return g.cors(h)
	}
	return h
}

// client returns the address of the client. It warns once about a field that is not read, because nobody would see that all
// clients behind a proxy share one limit.
func (g *Gate) client(r *http.Request, peer netip.Addr) netip.Addr {
	name, find := "X-Forwarded-For", g.o.TrustedProxies.Client
	if g.o.Forwarded {
		name, find = "Forwarded", g.o.TrustedProxies.ClientForwarded
	}
	client, internal := peer, peer.Unmap().IsPrivate() || peer.Unmap().IsLoopback()
	if forwarded := r.Header[name]; len(forwarded) > 0 {
		client = find(peer, forwarded)
		if client == peer && internal && !g.o.TrustedProxies.Contain(peer) {
			g.untrusted.Do(func() {
				g.o.Logger.LogAttrs(r.Context(), slog.LevelWarn, name+" ignored, so all clients of this peer count as one; if it is your proxy, "+
					"trust its network (WithTrustedProxies, or WithForwarded)", slog.Any("peer", peer))
			})
		}
	}
	proxy := g.o.TrustedProxies.Contain(client) || client.Unmap().IsPrivate() || client.Unmap().IsLoopback()
	if !g.o.Forwarded && len(r.Header["Forwarded"]) > 0 && proxy {
		g.unread.Do(func() {
			g.o.Logger.LogAttrs(r.Context(), slog.LevelWarn, "Forwarded ignored, and the client has the address of a proxy; if your proxy "+
				"writes this field, such as a VPC link, set WithForwarded", slog.Any("client", client))
		})
	}
	return client
}

// NewRequest returns the parts of r that a Gate needs. The address is the peer of the connection.
func NewRequest(r *http.Request) Request {
	return Request{Method: r.Method, Path: rules.URLPath(r.URL), Header: r.Header, Address: caller.ParseAddress(r.RemoteAddr)}
}

// Serve decides the request that r and request describe. It answers r itself or passes r to the handler next.
func (g *Gate) Serve(w http.ResponseWriter, r *http.Request, request Request, next http.Handler) {
	request.origin, request.answer = r, w
	result := g.Decide(r.Context(), request)
	if result.passed != nil {
		r = result.passed
	}
	switch {
	case result.Class() != telemetry.ClassAllowed:
		result.Answer.refuse(w, r)
		return
	case !wait(r.Context(), min(result.Decision.Delay, g.o.MaxDelay)):
		result.Pending.refuse(r.Context(), 0)
		result.Answer.Problem = queueLeft()
		result.Answer.refuse(w, r)
		return
	}
	if result.usage != nil {
		next = usageHandler{g, result.Time, result.Caller, rules.Selection{Tier: result.Tier, Usage: result.usage}}
	}
	r = SetOver(r, result.Answer.Over)
	result.Answer.serve(w, r, next, result.Pending)
}

// AnswerTime is the part of a request's time that Serve reserves for the answer. A request whose turn in the
// queue of a leaky bucket comes later than AnswerTime before its deadline is refused at once. Lambda ends a
// function at its deadline, and the client would get no answer.
const AnswerTime = 500 * time.Millisecond

// wait waits for the delay. It returns false if ctx ends first, or at once if too little time would be left.
func wait(ctx context.Context, delay time.Duration) bool {
	if delay <= 0 {
		return true
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < delay+AnswerTime {
		return false
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

// OverField is the header field of a request that is over a limit in mode mark. Its value is the name of
// the limit.
const OverField = "Weir-Over"

// SetOver returns r with the limit's name in OverField. If the name is "", it returns r without the field, so
// that a client cannot set it.
func SetOver(r *http.Request, limit string) *http.Request {
	if _, sent := r.Header[OverField]; !sent && limit == "" {
		return r
	}
	copied := *r
	copied.Header = r.Header.Clone()
	copied.Header.Del(OverField)
	if limit != "" {
		if copied.Header == nil {
			copied.Header = http.Header{}
		}
		copied.Header.Set(OverField, limit)
	}
	return &copied
}
