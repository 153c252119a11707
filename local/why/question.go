package why

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/weir-limits/weir/limiter/telemetry"
	"github.com/weir-limits/weir/local/operator"
)

// Path is the path at which a local gateway answers a Question. See [operator.Path].
const Path = operator.Path + "why"

// MaxRows is the largest number of rows in Refusals.
const MaxRows = 1000

// Question asks for refusals. The zero value asks for all that a RefusalLog has.
type Question struct {
	Subject string `json:"subject,omitempty"` // a caller, as in operator.ParseCaller; "" means every caller
	Since   string `json:"since,omitempty"`   // a period before now, such as 10m; "" means no limit
	Shadow  bool   `json:"shadow,omitempty"`  // what limits in shadow mode would have refused
	Number  int    `json:"number,omitempty"`  // largest number of rows; 0 means MaxRows
}

// kind returns the kind of the log lines.
func (q *Question) kind() string {
	if q.Shadow {
		return telemetry.LineShadowed
	}
	return telemetry.LineRefused
}

func (q *Question) rows() int { return cmp.Or(q.Number, MaxRows) }

// Handler answers questions at Path. It calls the function fresh first, so that waiting lines are in the RefusalLog. The caller must check
// the Host header and the origin before it calls the handler.
func (r *RefusalLog) Handler(clock func() time.Time, ipv6Bits int, fresh func(time.Time)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		operator.Answer(w, request, func(_ context.Context, q Question) (Refusals, error) {
			now := clock()
			fresh(now)
			return r.ask(q, now, ipv6Bits)
		})
	})
}

func (r *RefusalLog) ask(q Question, now time.Time, ipv6Bits int) (Refusals, error) {
	var from time.Time
	if q.Since != "" {
		since, err := time.ParseDuration(q.Since)
		if err != nil || since <= 0 {
			return Refusals{}, operator.Mistake("since: got %q, want a period such as 10m", q.Since)
		}
		from = now.Add(-since)
	}
	if q.Number < 0 || q.Number > MaxRows {
		return Refusals{}, operator.Mistake("number: got %d, want 1 to %d", q.Number, MaxRows)
	}
	var subject string
	if q.Subject != "" {
		parsed, _, err := operator.ParseCaller(q.Subject, ipv6Bits)
		if err != nil {
			return Refusals{}, err
		}
		subject = r.HashOf(parsed)
	}
	return r.answer(q.kind(), subject, from, now, q.rows()), nil
}
