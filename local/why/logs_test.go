package why_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/telemetry"
	"github.com/weir-limits/weir/local/why"
)

// insights is CloudWatch Logs Insights. Its query has the given status in the answers before the last one.
type insights struct {
	statuses []string // of GetQueryResults; the last one repeats
	results  string   // JSON of the results

	asked   map[string]any // the last StartQuery
	calls   []string
	read    int
	refused string // error of GetQueryResults
}

func (f *insights) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, action, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	f.calls = append(f.calls, action)
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	switch action {
	case "StartQuery":
		_ = json.NewDecoder(r.Body).Decode(&f.asked)
		_, _ = io.WriteString(w, `{"queryId":"q"}`)
	case "GetQueryResults":
		if f.refused != "" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"__type":%q,"message":"refused by the test"}`, f.refused)
			return
		}
		status := f.statuses[min(f.read, len(f.statuses)-1)]
		f.read++
		fmt.Fprintf(w, `{"status":%q,"results":[%s]}`, status, f.results)
	default:
		_, _ = io.WriteString(w, `{"success":true}`)
	}
}

// logs returns Logs of a server, and the waits and the progress of its queries.
func logs(t *testing.T, f *insights) (l *why.Logs, waited *time.Duration, progress *bytes.Buffer) {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	waited, progress = new(time.Duration), &bytes.Buffer{}
	client := cloudwatchlogs.NewFromConfig(aws.Config{Region: "us-east-1", BaseEndpoint: &s.URL, Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""), RetryMaxAttempts: 1})
	return &why.Logs{Client: client, Groups: []string{"authorizer", "handler"}, Progress: progress, Wait: func(ctx context.Context, d time.Duration) error {
		*waited += d
		return ctx.Err()
	}}, waited, progress
}

const oneResult = `[{"field":"subject","value":"aaaa"},{"field":"rule","value":"GET /a/{id}"},{"field":"limit","value":"search"},{"field":"count","value":"17"},
	{"field":"first","value":"2026-11-21T11:59:00Z"},{"field":"last","value":"2026-11-21T11:59:59.123Z"},{"field":"capacity","value":"20"},{"field":"retryAfter","value":"0.6"},{"field":"addressFrom","value":"weir"},{"field":"@ptr","value":"x"}]`

// The query lets Insights count the lines of the caller in the period, and its result is the answer.
func TestLogs(t *testing.T) {
	f := &insights{statuses: []string{"Scheduled", "Running", "Running", "Complete"}, results: oneResult + `,[{"field":"count","value":"2.0E2"}]`}
	l, waited, progress := logs(t, f)
	subject := hash(limiter.User("alice"))
	got, err := l.Ask(t.Context(), why.Question{Subject: "user:alice"}, subject, noon, 10*time.Minute)
	want := why.Answer{From: noon.Add(-10 * time.Minute), To: noon, Count: 17, Unnamed: 200, Rows: []why.Row{{
		Caller: "user:alice", Subject: "aaaa", Rule: "GET /a/{id}", Limit: "search", Count: 17,
		First: noon.Add(-time.Minute), Last: noon.Add(-877 * time.Millisecond), Capacity: 20, RetryAfter: 0.6, AddressFrom: "weir",
	}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v, error %v\nwant %+v", got, err, want)
	}
	query := `filter weir = "refused" and (subject = "` + subject + `" or not ispresent(subject)) | stats sum(count) as count, earliest(time) as first, latest(time) as last, latest(capacity) as capacity, latest(remaining) as remaining, latest(retryAfterSeconds) as retryAfter, latest(addressFrom) as addressFrom by subject, rule, ` + "`limit` | sort count desc | limit 10000"
	if asked := map[string]any{"queryString": query, "logGroupNames": []any{"authorizer", "handler"}, "startTime": float64(noon.Add(-10 * time.Minute).Unix()), "endTime": float64(noon.Unix())}; !reflect.DeepEqual(f.asked, asked) {
		t.Errorf("query:\ngot  %v\nwant %v", f.asked, asked)
	}
	if *waited != 3*time.Second || progress.String() != "CloudWatch Logs Insights runs the query (2s) ...\n" || slices.Contains(f.calls, "StopQuery") {
		t.Errorf("wait: got %s, progress %q, calls %q, want 3s, one line after 2s and no stop", *waited, progress, f.calls)
	}
	f.results = strings.TrimSuffix(strings.Repeat(`[{"field":"subject","value":"aaaa"},{"field":"count","value":"1"}],`, 10_000), ",")
	if got, err := l.Ask(t.Context(), why.Question{}, "", noon, time.Minute); err != nil || !got.Partial || got.Count != 10_000 {
		t.Errorf("largest result: got %d, partial %t, error %v, want 10,000 and partial", got.Count, got.Partial, err)
	}
	if _, err := l.Ask(t.Context(), why.Question{Shadow: true}, "", noon, time.Minute); err != nil || !strings.HasPrefix(fmt.Sprint(f.asked["queryString"]), `filter weir = "shadowed" | stats `) {
		t.Errorf("shadow mode of all callers: got %v, error %v", f.asked["queryString"], err)
	}
}

// The query names members of the log line.
func TestLogs_members(t *testing.T) {
	f := &insights{statuses: []string{"Complete"}}
	l, _, _ := logs(t, f)
	if _, err := l.Ask(t.Context(), why.Question{}, "x", noon, time.Minute); err != nil {
		t.Fatal(err)
	}
	for member := range reflect.TypeFor[telemetry.DecisionLine]().Fields() {
		name, _, _ := strings.Cut(member.Tag.Get("json"), ",")
		if name == "degraded" { // only of sampled requests
			continue
		}
		if query := fmt.Sprint(f.asked["queryString"]); !strings.Contains(query, name) {
			t.Errorf("query: got %s, want the member %s in it", query, name)
		}
	}
}

// A query that fails, takes too long or is interrupted ends with an error, and does not run on.
func TestLogs_errors(t *testing.T) {
	for _, c := range []struct {
		name, want string
		fake       *insights
		stops      bool
	}{
		{"failed", "CloudWatch Logs Insights: the query ended with the status Failed", &insights{statuses: []string{"Running", "Failed"}}, false},
		{"endless", "CloudWatch Logs Insights: no result after 2m0s; ask for a shorter period", &insights{statuses: []string{"Running"}}, true},
		{"denied", "AccessDeniedException: refused by the test", &insights{refused: "AccessDeniedException"}, true},
		{"no time", `parsing time "x"`, &insights{statuses: []string{"Complete"}, results: `[{"field":"first","value":"x"}]`}, false},
		{"no number", `parsing "x"`, &insights{statuses: []string{"Complete"}, results: `[{"field":"count","value":"x"}]`}, false},
	} {
		l, waited, _ := logs(t, c.fake)
		_, err := l.Ask(t.Context(), why.Question{}, "", noon, time.Minute)
		if err == nil || !strings.Contains(err.Error(), c.want) || slices.Contains(c.fake.calls, "StopQuery") != c.stops || *waited > 2*time.Minute {
			t.Errorf("%s: got %v, calls %q, want %s, and the query stopped: %t", c.name, err, c.fake.calls, c.want, c.stops)
		}
	}
	f := &insights{statuses: []string{"Running"}}
	l, _, _ := logs(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	l.Wait = func(ctx context.Context, _ time.Duration) error {
		cancel()
		return ctx.Err()
	}
	if _, err := l.Ask(ctx, why.Question{}, "", noon, time.Minute); !errors.Is(err, context.Canceled) || f.calls[len(f.calls)-1] != "StopQuery" {
		t.Errorf("interrupt: got %v, calls %q, want the query stopped", err, f.calls)
	}
}
