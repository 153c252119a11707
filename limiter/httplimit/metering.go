package httplimit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/meter"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// These constants bound the bodies that a Gate reads before its decision.
const (
	maxBody     = 1 << 20  // bytes of a body
	freeBody    = 8 << 10  // of these, bytes that each request may have; the others share the following
	maxReading  = 64 << 20 // bytes of all bodies that are being read
	maxOfClient = 8 << 20  // bytes of those from one address
	// bodyTimeout is the longest wait for one of these bodies, unless the server has a ReadTimeout.
	bodyTimeout = 30 * time.Second
)

// readers counts the bytes of bodies that are being read, so that clients whose bodies arrive slowly hold bounded memory, and the
// clients of one address leave room for others. Callers without a valid address share no bound but that of all. The zero value has
// no bytes.
type readers struct {
	mu  sync.Mutex
	all int
	of  map[netip.Prefix]int
}

// add adds n bytes, which can be negative, of an address. It returns false if there are too many then.
func (r *readers) add(from netip.Prefix, n int) (room bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[netip.Prefix]int{}
	}
	r.all += n
	r.of[from] += n
	room = r.all <= maxReading && (!from.IsValid() || r.of[from] <= maxOfClient)
	if r.of[from] == 0 {
		delete(r.of, from)
	}
	return room
}

// errCrowded ends the reading of a body beside too many others.
var errCrowded = errors.New("too many bodies")

// counting is a body from an address whose bytes readers count, except the first freeBody.
type counting struct {
	io.Reader
	readers *readers
	from    netip.Prefix
	n       int // counted bytes, less freeBody
}

// Read implements io.Reader.
func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	if more := min(n, c.n); more > 0 && !c.readers.add(c.from, more) {
		err = errCrowded
	}
	return n, err
}

// end uncounts the bytes.
func (c *counting) end() {
	if c.n > 0 {
		c.readers.add(c.from, -c.n)
	}
}

// metering reads the costs of a request from its body and from the body of its answer.
type metering struct {
	of      []rules.Metered
	request *meter.Request
	answer  *meter.Answer // nil if no cost is in the answer
}

// newMetering reads the body of r if one of the sources needs it, and reduces the reserve of the charges in o, to no less than a reserve
// that no body changes. If known is false, the caller is not known, and the body stays unread. It sets r.origin to a request with an
// unread body. An error means that the body can be read in several ways, or is errIncomplete.
func (g *Gate) newMetering(r *Request, of []rules.Metered, o *telemetry.Outcome, known bool) (m *metering, unusable error) {
	m = &metering{of: of}
	sources, answered, enforced := make([]*meter.Source, len(of)), false, false
	for i, one := range of {
		sources[i] = one.Source
		answered = answered || len(one.Source.Fields) > 0
		enforced = enforced || !one.Limit.Shadow && !one.Limit.Mark && meter.ReadsRequest(one.Source)
	}
	if answered {
		m.answer = meter.NewAnswer(sources...)
	}
	if known && r.origin != nil && meter.ReadsRequest(sources...) {
		body, whole, err := g.readBody(r, o.Caller.IP)
		unusable = err
		if whole {
			m.request, unusable = meter.ReadRequest(r.Header, body, sources...)
		}
	}
	if !enforced { // the limits refuse nothing
		unusable = nil
	}
	for i := range o.Charges {
		c, reserve, least := &o.Charges[i], int64(0), int64(0)
		for _, one := range of {
			switch {
			case one.Limit != c.Limit:
			case one.Source.MostReserve > 0:
				reserve = max(reserve, m.request.Reserve(one.Source, one.Value))
			default:
				least = max(least, one.Least)
			}
		}
		if reserve > 0 {
			c.Cost = min(c.Cost, max(reserve, least))
		}
	}
	return m, unusable
}

// errIncomplete reports that the body of a request could not be read.
var errIncomplete = errors.New("incomplete body")

// readBody reads the body of r.origin, which is from an address. whole is false if the body is longer than maxBody, or arrives beside too
// many others, or with an error, which is errIncomplete.
func (g *Gate) readBody(r *Request, from netip.Prefix) (body []byte, whole bool, err error) {
	if r.origin.Body == nil || r.origin.Body == http.NoBody {
		return nil, true, nil
	}
	if r.origin.ContentLength > maxBody {
		return nil, false, nil
	}
	counted := &counting{Reader: io.LimitReader(r.origin.Body, maxBody+1), readers: &g.readers, from: from, n: -freeBody}
	defer counted.end()
	if server, ok := r.origin.Context().Value(http.ServerContextKey).(*http.Server); ok && server.ReadTimeout == 0 {
		control := http.NewResponseController(r.answer)
		_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
		defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	}
	body, err = io.ReadAll(counted)
	unread := *r.origin
	unread.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), r.origin.Body), r.origin.Body}
	r.origin = &unread
	if _, long := errors.AsType[*http.MaxBytesError](err); err != nil && !long && !errors.Is(err, errCrowded) {
		return nil, false, errIncomplete
	}
	return body, err == nil && len(body) <= maxBody, nil
}

// begin begins the body of an answer.
func (m *metering) begin(h http.Header) {
	if m != nil && m.answer != nil {
		m.answer.Begin(h)
	}
}

// write reads a part of that body.
func (m *metering) write(b []byte) {
	if m != nil && m.answer != nil {
		_, _ = m.answer.Write(b)
	}
}

// reads reports whether the answer has the cost of a request on a limit.
func (m *metering) reads(l *limiter.Limit) bool {
	if m != nil {
		for _, one := range m.of {
			if one.Limit == l && len(one.Source.Fields) > 0 {
				return true
			}
		}
	}
	return false
}

// cost returns the cost on a limit in the answer: the highest of several rules. If the answer did not end, and lacks a number
// or could have repeated it, the cost is at least the reserve.
func (m *metering) cost(l *limiter.Limit, reserve int64, ended bool) (cost int64, err error) {
	for _, one := range m.of {
		if one.Limit != l || len(one.Source.Fields) == 0 {
			continue
		}
		n, complete, err := m.answer.Cost(one.Source, m.request, one.Value)
		if err != nil {
			return 0, err
		}
		if !ended && (!complete || m.answer.Repeats()) {
			n = max(n, reserve)
		}
		cost = max(cost, n)
	}
	return cost, nil
}

// readCosts reports the costs in the answer for limits without a report. ended reports that the client got the whole answer.
func (p *Pending) readCosts(ended bool) {
	if p.metering == nil || p.metering.answer == nil {
		return
	}
	p.metering.answer.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.costs {
		r := &p.costs[i]
		if r.state != unreported || !p.metering.reads(r.limit) {
			continue
		}
		cost, err := p.metering.cost(r.limit, r.reserve, ended)
		if err != nil {
			p.unread, p.lacking = p.unread+1, fmt.Errorf("limit %q: %w", r.limit.Name, err)
			continue
		}
		r.cost, r.state = cost, accepted
	}
}

// unreadable reports whether a client accepts an answer in an encoding from which no cost can be read.
func unreadable(accepted []string) bool {
	for _, field := range accepted {
		for coding := range strings.SplitSeq(field, ",") {
			name, _, _ := strings.Cut(coding, ";")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "gzip", "x-gzip", "identity", "":
			default:
				return true
			}
		}
	}
	return false
}
