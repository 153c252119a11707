package account

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	"github.com/weir-limits/weir/local/verify"
)

// client returns the configuration of clients that call a server.
func client(url string) aws.Config {
	return aws.Config{Region: "us-east-1", BaseEndpoint: &url, RetryMaxAttempts: 1, Credentials: credentials.NewStaticCredentialsProvider("AKIAEXAMPLE", "secret", "")}
}

// A search reads a bounded number of pages. If these pages have no match and there are more, the search
// proves nothing.
func TestStack_logErrors(t *testing.T) {
	began := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	const line = `{"events": [{"message": "{\"level\":\"ERROR\"}", "timestamp": 1795347000000}]}`
	const more = `{"events": [], "nextToken": "next"}`
	for _, c := range []struct {
		name, now, before string // the pages since the run began, and those of the hour before
		outcome           verify.Outcome
		text              string // of the reason or the warning
		pages             int
	}{
		{"no line", `{}`, `{}`, verify.Pass, "", 2},
		{"a line", line, `{}`, verify.Fail, "", 1},
		{"an earlier line", `{}`, line, verify.Pass, "the first at 11:30 UTC", 2},
		{"an endless log", more, `{}`, verify.Skip, "longer than the 50 pages", maxPages},
		{"an endless earlier log", `{}`, more, verify.Pass, "only 50 pages", maxPages + 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			pages := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var in struct{ StartTime int64 }
				if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
					t.Error(err)
				}
				page := c.now
				if in.StartTime < began.UnixMilli() {
					page = c.before
				}
				if pages++; pages > 2*maxPages {
					page = `{}` // without a bound, the search ends here
				}
				w.Header().Set("Content-Type", "application/x-amz-json-1.1")
				fmt.Fprint(w, page)
			}))
			t.Cleanup(server.Close)
			s := &Stack{began: began, clients: clients{logs: cloudwatchlogs.NewFromConfig(client(server.URL))}, resources: []Resource{{Type: functionType, Properties: map[string]any{
				"Environment": map[string]any{"Variables": map[string]any{"NAMESPACE": "dev"}}, "LoggingConfig": map[string]any{"LogGroup": "group"},
			}}}}
			o := s.Check(t.Context(), "log-errors")
			if o.Outcome != c.outcome || !strings.Contains(o.Reason+o.Warning, c.text) || c.text == "" && o.Warning != "" || pages != c.pages {
				t.Errorf("got %+v after %d pages, want %s with %q after %d pages", o, pages, c.outcome, c.text, c.pages)
			}
		})
	}
}

// A run begins by the clock of AWS, which dates the logs. The clock of this machine can be behind or ahead.
func TestStack_logErrors_clock(t *testing.T) {
	for _, ahead := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		began := time.Now().Add(ahead).Truncate(time.Second) // by the clock of AWS
		searched := false
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", began.UTC().Format(http.TimeFormat))
			if r.Header.Get("X-Amz-Target") == "" {
				fmt.Fprintf(w, "<%[1]sResponse><%[1]sResult><Stacks><member><StackName>s</StackName></member></Stacks><TemplateBody>{}</TemplateBody></%[1]sResult></%[1]sResponse>", r.FormValue("Action"))
				return
			}
			var in struct{ StartTime, EndTime int64 }
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil || !searched && (in.StartTime != began.UnixMilli() || in.EndTime <= in.StartTime) {
				t.Errorf("clock of AWS %s ahead: got a search from %d to %d, %v, want one from %d on", ahead, in.StartTime, in.EndTime, err, began.UnixMilli())
			}
			searched = true
			w.Header().Set("Content-Type", "application/x-amz-json-1.1")
			fmt.Fprint(w, `{}`)
		}))
		s := &Stack{Name: "s", began: time.Now(), clients: clients{formation: cloudformation.NewFromConfig(client(server.URL)), logs: cloudwatchlogs.NewFromConfig(client(server.URL))}}
		if err := s.readStack(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.resources = []Resource{{Type: functionType, Properties: map[string]any{
			"Environment": map[string]any{"Variables": map[string]any{"NAMESPACE": "dev"}}, "LoggingConfig": map[string]any{"LogGroup": "group"},
		}}}
		if o := s.Check(t.Context(), "log-errors"); o.Outcome != verify.Pass || !searched {
			t.Errorf("got %+v, want a search without lines", o)
		}
		server.Close()
	}
}

// If AWS does not answer, one row fails and the others are skipped.
func TestStack_Check_unreachable(t *testing.T) {
	s := &Stack{clients: clients{watch: cloudwatch.NewFromConfig(client("http://127.0.0.1:1"))}, resources: []Resource{{Type: alarmType, Physical: "a"}}}
	if o := s.Check(t.Context(), "alarm-states"); o.Outcome != verify.Fail || !strings.Contains(o.Raw, "connection refused") {
		t.Errorf("first row: got %+v, want a failure with its cause", o)
	}
	if o := s.Check(t.Context(), "alarm-arrives"); o.Outcome != verify.Skip || !strings.Contains(o.Reason, "alarm-states") {
		t.Errorf("next row: got %+v, want a skip that names the first", o)
	}
}
