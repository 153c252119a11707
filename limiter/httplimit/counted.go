package httplimit

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/weir-limits/weir/limiter"
)

// StatusClientLeft counts as the status of a request whose client leaves before the header of the answer. No client
// gets it; nginx logs it in the same case.
const StatusClientLeft = 499

// serve passes r to the handler next, and settles the request when the body has ended. It also settles after a
// panic, which counts as status 500. If the client has left, the panic is no failure: reverse proxies panic then.
func (c *counted) serve(r *http.Request, next http.Handler) {
	p, status, ended := c.pending, http.StatusInternalServerError, false
	defer func() {
		if errors.Is(r.Context().Err(), context.Canceled) {
			status, ended = cmp.Or(c.status, StatusClientLeft), false
		}
		p.takeFields(c.Header())
		p.readCosts(ended)
		p.Settle(r.Context(), status, c.bytes)
	}()
	next.ServeHTTP(c, p.inbound(r))
	c.begin(http.StatusOK)
	status, ended = c.status, true
}

// inbound returns r with p in its context, and without the cost fields that a client sent. If the answer has costs, it also lacks an
// Accept-Encoding with an encoding from which Weir cannot read them.
func (p *Pending) inbound(r *http.Request) *http.Request {
	r = r.WithContext(context.WithValue(r.Context(), pendingKey{}, p))
	cloned := false
	remove := func(field string) {
		if len(r.Header.Values(field)) == 0 {
			return
		}
		if !cloned {
			r.Header, cloned = r.Header.Clone(), true
		}
		r.Header.Del(field)
	}
	if len(p.costs) > 0 {
		remove(limiter.CostField)
	}
	if m := p.metering; m != nil && m.answer != nil && unreadable(r.Header["Accept-Encoding"]) {
		remove("Accept-Encoding")
	}
	return r
}

// ReportFields reports the cost fields in h and removes them from h. It is for a header that does not pass through
// the handler's http.ResponseWriter, such as the header of an upgraded connection. ctx is the context of the request
// that the handler got.
func ReportFields(ctx context.Context, h http.Header) {
	if p, ok := ctx.Value(pendingKey{}).(*Pending); ok {
		p.takeFields(h)
	}
}

// Counted reports whether a request settles after its answer. ctx is the context of the request that the handler got.
func Counted(ctx context.Context) bool { return ctx.Value(pendingKey{}) != nil }

// counted is the http.ResponseWriter of an admitted request. It records the status, the cost fields and the length of the body,
// and removes fields of the decision that the handler has replaced. http.ResponseController finds the writer below it by Unwrap.
type counted struct {
	http.ResponseWriter
	own     [len(fieldNames)]string // the values of the decision, which the header refers to
	pending *Pending                // nil if nothing settles
	head    bool                    // the request is a HEAD request, whose answer has no body
	status  int                     // 0 until the header is sent
	bytes   int64
}

// begin reads the cost fields and removes them from the header. Call it before each header is sent, including the
// header of an informational answer (1xx).
func (c *counted) begin(status int) {
	if c.status != 0 {
		return
	}
	if c.pending != nil {
		c.pending.takeFields(c.Header())
	}
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		c.status = status
		c.yield()
		if c.pending != nil {
			c.pending.metering.begin(c.Header())
		}
	}
}

// yield removes the fields of the decision that do not apply to the answer; see Yield. A reverse proxy adds its values to them.
func (c *counted) yield() {
	h := c.Header()
	for _, group := range groups {
		foreign := refuses(c.status)
		for _, i := range group {
			foreign = foreign || len(h[canonicalNames[i]]) > 0 && !c.owns(i)
		}
		if !foreign {
			continue
		}
		for _, i := range group {
			if values := h[canonicalNames[i]]; c.owns(i) {
				delete(h, canonicalNames[i])
			} else if len(values) > 1 && values[0] == c.own[i] {
				h[canonicalNames[i]] = values[1:]
			}
		}
	}
}

// owns reports whether the i-th field still has the value of the decision.
func (c *counted) owns(i int) bool {
	values := c.Header()[canonicalNames[i]]
	return len(values) == 1 && &values[0] == &c.own[i]
}

// WriteHeader implements http.ResponseWriter.
func (c *counted) WriteHeader(status int) {
	c.begin(status)
	c.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (c *counted) Write(b []byte) (int, error) {
	c.begin(http.StatusOK)
	n, err := c.ResponseWriter.Write(b)
	if !c.head {
		c.bytes += int64(n)
	}
	if c.pending != nil {
		c.pending.metering.write(b[:n])
	}
	return n, err
}

// ReadFrom implements io.ReaderFrom, so that the writer below can send a file without a copy, unless something counts its bytes.
func (c *counted) ReadFrom(r io.Reader) (int64, error) {
	if c.pending != nil {
		return io.Copy(struct{ io.Writer }{c}, r)
	}
	c.begin(http.StatusOK)
	return io.Copy(c.ResponseWriter, r)
}

// FlushError implements the flushing of http.ResponseController.
func (c *counted) FlushError() error {
	c.begin(http.StatusOK)
	return http.NewResponseController(c.ResponseWriter).Flush()
}

// Flush implements http.Flusher.
func (c *counted) Flush() { _ = c.FlushError() }

// Hijack implements http.Hijacker. Weir cannot count what the handler sends then, so the length of the
// answer is unknown.
func (c *counted) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(c.ResponseWriter).Hijack()
	if err == nil {
		c.bytes = unknownLength
	}
	return conn, buffered, err
}

// unknownLength stands for the length of a body that Weir cannot count.
const unknownLength = -1

// Unwrap returns the writer below c, for http.ResponseController.
func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }
