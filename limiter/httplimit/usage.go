package httplimit

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// Usage is the answer of the usage endpoint: the limits that count a caller's requests.
type Usage struct {
	Subject string       `json:"subject"`
	Tier    string       `json:"tier"`
	Limits  []LimitUsage `json:"limits"`
	// Truncated reports that the caller has more limits than Limits contains.
	Truncated bool `json:"truncated,omitempty"`
}

// LimitUsage is what a caller has used of one limit, in requests or in what Count names.
type LimitUsage struct {
	Name     string `json:"name"`
	Endpoint string `json:"endpoint"` // endpoint of the rule, or of the first rule if several rules share the limit
	Method   string `json:"method,omitempty"`
	Limit    int64  `json:"limit"`  // requests in each window
	Window   string `json:"window"` // such as "60s"; of a limit with a period, the length of the present period
	// Period is day, week, month or year. It is empty for a limit without a period.
	Period string `json:"period,omitempty"`
	// Count is cost, failures, bytes or concurrent. It is empty for requests.
	Count string `json:"count,omitempty"`
	// Mode is mark for a limit that admits requests over it. It is empty for a limit that refuses them.
	Mode string `json:"mode,omitempty"`
	// Capacity is the burst of a bucket. For other limits it is Limit.
	Capacity  int64 `json:"capacity"`
	Used      int64 `json:"used"` // more than Capacity if the caller is in debt
	Remaining int64 `json:"remaining"`
	// When the quota is full again, in Unix seconds; for requests in flight, the latest possible time.
	Reset int64 `json:"reset"`
}

// usageTimeout bounds the reads for one answer of the usage endpoint.
const usageTimeout = time.Second

func anonymous(c *caller.Caller) bool { return c.User == "" && c.APIKey == "" }

// ServeUsage answers a request for the path of the usage endpoint that an authorizer has allowed. It
// charges nothing. It returns false if the request is for another method.
func (g *Gate) ServeUsage(w http.ResponseWriter, r *http.Request, request Request) bool {
	if request.Method != http.MethodGet && request.Method != http.MethodHead {
		return false
	}
	now := g.o.Clock()
	c, err := g.o.Identify(r.Context(), now, request)
	selected := g.o.Select(r.Context(), now, rules.Request{Method: request.Method, Path: request.Path, Header: request.Header, Caller: c})
	if err == nil && anonymous(&c) {
		err = caller.ErrMissingCredential
	}
	switch {
	case err != nil:
		g.answer(r.Context(), &telemetry.Outcome{Err: err}, false).Refuse(w)
	case selected.Usage == nil:
		return false
	default:
		g.serveUsage(w, r, now, c, selected)
	}
	return true
}

// usageHandler serves the usage of a caller whose request has been decided.
type usageHandler struct {
	gate     *Gate
	now      time.Time
	caller   caller.Caller
	selected rules.Selection
}

// ServeHTTP implements http.Handler.
func (h usageHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.gate.serveUsage(w, r, h.now, h.caller, h.selected)
}

func (g *Gate) serveUsage(w http.ResponseWriter, r *http.Request, now time.Time, c caller.Caller, selected rules.Selection) {
	ctx, cancel := context.WithTimeout(r.Context(), usageTimeout)
	defer cancel()
	listed, complete := selected.Usage()
	limits, err := readUsage(ctx, g.o.Limiter, now, listed)
	if err != nil {
		Answer{RetryAfter: retrySoon, Problem: failure()}.Refuse(w)
		return
	}
	body, _ := json.Marshal(Usage{c.Subject().String(), selected.Tier, limits, !complete}) // Marshal never fails for strings and numbers
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // the client may have disconnected
}

// readUsage reads what a caller has used of limits. It charges nothing.
func readUsage(ctx context.Context, l *limiter.Limiter, now time.Time, listed []rules.Listed) ([]LimitUsage, error) {
	charges := make([]limiter.Charge, len(listed))
	for i := range listed {
		charges[i] = listed[i].Charge
	}
	found, err := l.Inspect(ctx, now, charges)
	limits := make([]LimitUsage, len(found))
	for i, u := range found {
		rate := u.Limit.Rate
		limits[i] = LimitUsage{
			Name: u.Limit.Name, Endpoint: listed[i].Endpoint, Method: listed[i].Method, Limit: rate.Requests,
			Window: strconv.FormatInt(seconds(u.Limit.WindowAt(now)), 10) + "s",
			Period: string(rate.Calendar.Period), Count: string(u.Limit.Count.Of), Capacity: u.Capacity, Used: u.Capacity - u.Remaining + u.Debt,
			Remaining: u.Remaining, Reset: unixUp(now.Add(u.ResetAfter)),
		}
		if u.Limit.Mark {
			limits[i].Mode = "mark"
		}
	}
	return limits, err
}
