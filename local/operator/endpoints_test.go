package operator_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/local/operator"
)

// Three hundred endpoints have a limit of three requests an hour each. On every store, each endpoint
// admits a caller exactly three times. Usage and Reset of the caller cover all these limits. Usage and
// Reset of an endpoint cover that endpoint only.
func TestEndpoints(t *testing.T) {
	var list []string
	for i := range 300 {
		list = append(list, fmt.Sprintf(`{"endpoint":"/e%d","limits":{"*":{"requests":3,"window":"1h"}}}`, i))
	}
	many := parse(t, `{"version":7,"rules":[`+strings.Join(list, ",")+`]}`)
	for _, kind := range stores {
		t.Run(kind, func(t *testing.T) {
			d := newDesk(t, kind)
			d.rules = many
			ask := func(i int) operator.Question {
				return operator.Question{Method: "GET", Path: fmt.Sprintf("/e%d", i), User: "alice"}
			}
			var wg sync.WaitGroup
			for from := range 10 {
				wg.Go(func() {
					for i := from; i < 300; i += 10 {
						if n := d.admitted(ask(i), 4); n != 3 {
							t.Errorf("/e%d: got %d of 4 admitted, want 3", i, n)
						}
					}
				})
			}
			wg.Wait()
			inspect := func(subject string, limits, left int) {
				t.Helper()
				found, err := d.Usage(t.Context(), subject)
				if err != nil || len(found.Limits) != limits || len(found.Others) != 0 {
					t.Fatalf("%s: got %d limits and %d others, error %v, want %d and 0", subject, len(found.Limits), len(found.Others), err, limits)
				}
				for _, l := range found.Limits {
					if l.State.Remaining != int64(left) {
						t.Fatalf("%s: got %+v, want %d remaining", subject, l, left)
					}
				}
			}
			one := d.explain(ask(7)).Limits[0].Subject
			inspect("user:alice", 300, 0)
			inspect(one, 1, 0)
			if f, err := d.Reset(t.Context(), one); err != nil || !slices.Equal(f.Removed, []string{one, one + "|shadow"}) {
				t.Errorf("reset: got %+v, error %v, want the subject of the endpoint and its shadow subject", f, err)
			}
			inspect(one, 1, 3)
			inspect("user:alice|endpoint::/e8", 1, 0)
			if _, err := d.Reset(t.Context(), "user:alice"); err != nil {
				t.Fatal(err)
			}
			inspect("user:alice", 300, 3)
		})
	}
	if got := many.Charges(nil, "GET", rules.EncodedPath("/e7"), caller.Caller{User: "alice"})[0].Subject.String(); got != "user:alice|endpoint::/e7" {
		t.Errorf("subject of /e7: got %s, want the item of the endpoint", got)
	}
}

// admitted returns how many of n requests of a user the store admits. The calls have no timeout.
func (d *desk) admitted(q operator.Question, n int) (admitted int) {
	charges := d.rules.Charges(nil, q.Method, rules.EncodedPath(q.Path), caller.Caller{User: q.User})
	for range n {
		allowed, err := d.Store.Take(d.t.Context(), algo.InstantOf(noon), charges[0].Subject, charges, make([]algo.Result, len(charges)))
		if err != nil {
			d.t.Error(err)
		}
		if allowed {
			admitted++
		}
	}
	return admitted
}
