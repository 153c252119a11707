package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-lambda-go/events"

	"github.com/weir-limits/weir/local/gateway"
)

const accessFormat = `{"authorizerLatency":"$context.authorizer.latency","authorizerStatus":"$context.authorizer.status",` +
	`"integrationLatency":"$context.integrationLatency","latency":"$context.responseLatency","method":"$context.httpMethod","path":"$context.resourcePath",` +
	`"receipt":"$context.authorizer.receipt","responseLength":"$context.responseLength","responseType":"$context.error.responseType","status":"$context.status",` +
	`"time":"$context.requestTimeEpoch"}`

// logged is a REST API with an access log, with the log lines that its function Log received.
type logged struct {
	*gateway.Gateway

	mu      sync.Mutex
	events  []events.CloudwatchLogsData
	blocked chan struct{} // if not nil, the function Log waits until this channel is closed
	fails   bool
}

func newLogged(t *testing.T, authorizer, handler *stub) *logged {
	t.Helper()
	l := &logged{}
	receive := &stub{answer: func(_ context.Context, event []byte) ([]byte, error) {
		if l.blocked != nil {
			<-l.blocked
		}
		data, err := decode[events.CloudwatchLogsEvent](t, event).AWSLogs.Parse()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.events = append(l.events, data)
		if l.fails {
			err = errors.New("no store")
		}
		return []byte("null"), err
	}}
	r := recording{API: gateway.REST, Stage: "test", Methods: []string{"ANY /{proxy+}"}, Authorizer: true, Log: accessFormat}
	g, err := gateway.New(parse(t, r.template(t)), gateway.Options{
		Functions: functions{"Guard": authorizer, "Function": handler, "Log": receive}, Clock: frozen,
	})
	if err != nil {
		t.Fatal(err)
	}
	l.Gateway = g
	return l
}

func (l *logged) lines(t *testing.T) (lines []string) {
	t.Helper()
	if err := l.Delivered(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		for _, line := range e.LogEvents {
			lines = append(lines, line.Message)
		}
	}
	return lines
}

// The function that subscribes to the access log receives the lines that the subscription's filter
// selects.
func TestAccessLog(t *testing.T) {
	const context = `{"receipt":"abc_-9","retryAfter":"1"}`
	l := newLogged(t, says(allows(context)), says(`{"statusCode":401,"body":"wrönġ"}`))
	if a := do(l.APIs()[0], request(t, "POST", "/login", strings.NewReader("{}"))); a.status != http.StatusUnauthorized {
		t.Fatalf("login: got %d %s, want 401", a.status, a.body)
	}
	const want = `{"authorizerLatency":"0","authorizerStatus":"-","integrationLatency":"0","latency":"0","method":"POST","path":"/{proxy+}","receipt":"abc_-9",` +
		`"responseLength":"7","responseType":"-","status":"401","time":"1772600767089"}`
	if got := l.lines(t); !slices.Equal(got, []string{want}) {
		t.Fatalf("lines: got\n%s\nwant\n%s", got, want)
	}
	e := l.events[0]
	if e.MessageType != "DATA_MESSAGE" || e.Owner != "123456789012" || e.LogGroup != "Access" || !slices.Equal(e.SubscriptionFilters, []string{"Lines"}) ||
		e.LogEvents[0].Timestamp != start.UnixMilli() || e.LogEvents[0].ID == "" {
		t.Errorf("event: got %+v, want an event of CloudWatch Logs", e)
	}
}

// A failed request has an access-log line with the status of its answer. A line without a receipt
// is not sent to the function.
func TestAccessLog_failures(t *testing.T) {
	for _, c := range []struct {
		name                string
		authorizer, handler *stub
		want                string // wanted status, length and type in the log line; empty means that no line is sent
	}{
		{"denied", says(denies(`{"receipt":"r"}`)), says(""), `"403","82","ACCESS_DENIED"`},
		{"crash of the back end", says(allows(`{"receipt":"r"}`)), fails("crash"), `"502","36","DEFAULT_5XX"`},
		{"no receipt", says(allows(`{}`)), says(`{"statusCode":200}`), ""},
		{"no authorizer", fails("crash"), says(`{"statusCode":200}`), ""},
	} {
		l := newLogged(t, c.authorizer, c.handler)
		do(l.APIs()[0], request(t, "GET", "/a", http.NoBody))
		var got string
		for _, line := range l.lines(t) {
			fields := decode[map[string]string](t, []byte(line))
			got += fmt.Sprintf("%q,%q,%q", fields["status"], fields["responseLength"], fields["responseType"])
		}
		if got != c.want {
			t.Errorf("%s: got the lines %s, want %s", c.name, got, c.want)
		}
	}
}

// Log lines that arrive while the function runs are sent together in the next event. Each line is
// sent exactly once, even if the function fails.
func TestAccessLog_batches(t *testing.T) { synctest.Test(t, testBatches) }

func testBatches(t *testing.T) {
	l := newLogged(t, says(allows(`{"receipt":"r"}`)), says(`{"statusCode":200}`))
	l.blocked, l.fails = make(chan struct{}), true
	var group sync.WaitGroup
	for range 150 {
		group.Go(func() { do(l.APIs()[0], request(t, "GET", "/a", http.NoBody)) })
	}
	group.Wait()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Delivered(canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("Delivered with a canceled context: got %v, want %v", err, context.Canceled)
	}
	close(l.blocked)
	if got := len(l.lines(t)); got != 150 || len(l.events) > 4 {
		t.Errorf("got %d lines in %d events, want 150 lines in at most 4 events", got, len(l.events))
	}
}

// At most 2,000 lines wait for the function, even if lines arrive faster than the function handles
// them.
func TestAccessLog_bounded(t *testing.T) { synctest.Test(t, testBounded) }

func testBounded(t *testing.T) {
	l := newLogged(t, says(allows(`{"receipt":"r"}`)), says(`{"statusCode":200}`))
	l.blocked = make(chan struct{})
	for range 2_200 {
		do(l.APIs()[0], request(t, "GET", "/a", http.NoBody))
	}
	close(l.blocked)
	// 2,000 lines can wait, and one event with up to 100 lines can be in the function.
	if got := len(l.lines(t)); got < 2_000 || got > 2_100 {
		t.Errorf("got %d lines, want 2,000 to 2,100", got)
	}
}
