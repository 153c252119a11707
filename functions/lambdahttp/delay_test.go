package lambdahttp_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

// A request waits for its turn in a leaky bucket only if an answer is possible before the deadline of the
// function. The Go handler and the layer do the same.
func TestDelay_deadline(t *testing.T) {
	const document = `{"rules":[{"endpoint":"*","limits":{"global":{"name":"queue","requests":6,"window":"1m","algorithm":"leaky_bucket",` +
		`"burst":5,"per":["ip"]}}}]}`
	for _, c := range []struct {
		left   time.Duration // until the deadline
		status string
		waited time.Duration
	}{
		{10*time.Second + httplimit.AnswerTime, `"statusCode":204`, 10 * time.Second},
		{10*time.Second + httplimit.AnswerTime - 1, `"statusCode":503`, 0},
	} {
		for name, invoke := range map[string]func(context.Context, *lambdahttp.Environment, []byte) (string, error){
			"handler": func(ctx context.Context, e *lambdahttp.Environment, event []byte) (string, error) {
				api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
				answer, err := lambdahttp.NewHandler(e, api).Invoke(ctx, event)
				return string(answer), err
			},
			"layer": func(ctx context.Context, e *lambdahttp.Environment, event []byte) (string, error) {
				own, err := lambdahttp.NewLayer(e).Invoke(ctx, event, func(*lambdahttp.Admitted) error { return nil })
				if own == nil {
					return `"statusCode":204`, err
				}
				return string(own.Payload), err
			},
		} {
			synctest.Test(t, func(t *testing.T) {
				e := memory(t)
				e.Rules = storetest.Must(fixed(rules.Parse([]byte(document), rules.Options{Version: 1, MaxDelay: 20 * time.Second})))
				e.MaxDelay = 20 * time.Second
				ctx, cancel := context.WithTimeout(t.Context(), c.left)
				defer cancel()
				begun := time.Now()
				for _, want := range []string{`"statusCode":204`, c.status} {
					if got, err := invoke(ctx, e, sampleEvent(t, "http-api-anonymous.json")); err != nil || !strings.Contains(got, want) {
						t.Errorf("%s, %s before the deadline: got %s, %v, want %s", name, c.left, got, err, want)
					}
				}
				if waited := time.Since(begun); waited != c.waited {
					t.Errorf("%s, %s before the deadline: waited %s, want %s", name, c.left, waited, c.waited)
				}
			})
		}
	}
}
