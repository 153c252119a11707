package eventbridge_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/log/eventbridge"
)

// A bus sends ten notices a call. If EventBridge rejects an event, Put reports how many the calls before sent.
func TestBus_Put(t *testing.T) {
	for rejected, want := range map[int]int{0: 11, 2: 10} { // the call that EventBridge rejects
		var entries []map[string]any
		var actions []string
		calls := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls++
			actions = append(actions, strings.Replace(r.Header.Get("X-Amz-Target"), "AWSEvents.", "events:", 1))
			var body struct{ Entries []map[string]any }
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				t.Error(err)
			}
			if calls == rejected {
				_, _ = io.WriteString(w, `{"FailedEntryCount":1,"Entries":[{"ErrorCode":"ThrottlingException","ErrorMessage":"slow down"}]}`)
				return
			}
			entries = append(entries, body.Entries...)
			_, _ = io.WriteString(w, `{"FailedEntryCount":0,"Entries":[]}`)
		}))
		defer server.Close()
		b := eventbridge.Open(aws.Config{Region: "eu-central-1", BaseEndpoint: &server.URL,
			Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")}, "quotas")
		at := time.Date(2026, 11, 21, 12, 0, 0, 5e8, time.UTC)
		sent, err := b.Put(context.Background(), slices.Repeat([]lambdahttp.Notice{{Time: at, Detail: []byte(`{"weir":"notice"}`)}}, 11))
		if sent != want || (err == nil) != (rejected == 0) || rejected != 0 && !strings.Contains(err.Error(),
			"1 of 1 events rejected: ThrottlingException: slow down") {
			t.Errorf("got %d sent and error %v, want %d", sent, err, want)
		}
		if calls != 2 || len(entries) != want || !slices.Equal(slices.Compact(actions), contract.NoticeActions()) {
			t.Errorf("got %d calls of %v with %d events, want 2 of %v with %d", calls, actions, len(entries), contract.NoticeActions(), want)
		}
		for _, e := range entries {
			if e["EventBusName"] != "quotas" || e["Source"] != "weir" || e["DetailType"] != "Weir Notice" || e["Detail"] != `{"weir":"notice"}` ||
				e["Time"] != float64(at.Unix()) {
				t.Errorf("got event %v, want the notice", e)
			}
		}
	}
}
