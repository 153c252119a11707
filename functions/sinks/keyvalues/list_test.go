package keyvalues_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/edge"
	"github.com/weir-limits/weir/functions/sinks/keyvalues"
)

// A list makes exactly the calls of contract.ListActions, and translates a conflict and a missing key. edge.Retire makes those
// of contract.RetireActions.
func TestList(t *testing.T) {
	var calls []string
	retires := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var action string
		status, body := 200, "{}"
		switch _, key, _ := strings.Cut(r.URL.Path, "/keys"); {
		case r.Method == http.MethodPost:
			action = "UpdateKeys"
			var got struct{ Puts, Deletes []map[string]string }
			if retires {
				break
			}
			if err := json.NewDecoder(r.Body).Decode(&got); err != nil || fmt.Sprint(got) != "{[map[Key:a Value:1]] [map[Key:b]]}" {
				t.Errorf("got the changes %v, %v", got, err)
			}
			if r.Header.Get("If-Match") == "old" {
				status, body = 409, `{"Message":"changed"}`
				w.Header().Set("X-Amzn-Errortype", "ConflictException")
			}
		case !strings.Contains(r.URL.Path, "/keys"):
			action, body = "DescribeKeyValueStore", `{"ItemCount":2,"TotalSizeInBytes":77}`
			w.Header().Set("ETag", "now")
		case key == "":
			action, body = "ListKeys", `{"Items":[{"Key":"a","Value":"1"}],"NextToken":"second"}`
			switch query := r.URL.Query(); {
			case query.Get("MaxResults") != strconv.Itoa(edge.MaxPage):
				t.Errorf("got a page of %q keys, want %d", query.Get("MaxResults"), edge.MaxPage)
			case query.Get("NextToken") == "second":
				body = `{"Items":[{"Key":"b","Value":"2"}]}`
			}
		case key == "/a":
			action, body = "GetKey", `{"Key":"a","Value":"1"}`
		case key == "/"+edge.ConfigKey:
			action, body = "GetKey", `{"Key":"config","Value":"{\"v\":1}"}`
		default:
			action, status, body = "GetKey", 404, `{"Message":"no such key"}`
			w.Header().Set("X-Amzn-Errortype", "ResourceNotFoundException")
		}
		calls = append(calls, "cloudfront-keyvaluestore:"+action)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	defer server.Close()
	ctx := context.Background()
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) { // the client puts the account before the host
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}
	l := keyvalues.Open(aws.Config{HTTPClient: &http.Client{Transport: &http.Transport{DialContext: dial}}, Region: "eu-central-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")}, "arn:aws:cloudfront::123456789012:key-value-store/list")
	if tag, size, err := l.State(ctx); tag != "now" || size != 77 || err != nil {
		t.Errorf("got state %s, %d, %v", tag, size, err)
	}
	for key, want := range map[string]string{"a": "1", "b": ""} {
		if got, err := l.Get(ctx, key); got != want || err != nil {
			t.Errorf("%s: got %q, %v; want %q", key, got, err, want)
		}
	}
	for token, want := range map[string]string{"": "map[a:1] second", "second": "map[b:2] "} {
		if values, next, err := l.Page(ctx, token); fmt.Sprint(values)+" "+next != want || err != nil {
			t.Errorf("page %q: got %v, next %q, %v; want %s", token, values, next, err, want)
		}
	}
	changes := map[string]string{"a": "1", "b": ""}
	if err := l.Update(ctx, "now", changes); err != nil {
		t.Errorf("got %v, want none", err)
	}
	if err := l.Update(ctx, "old", changes); !errors.Is(err, edge.ErrConflict) {
		t.Errorf("got %v, want %v", err, edge.ErrConflict)
	}
	made := func() []string {
		slices.Sort(calls)
		return slices.Compact(calls)
	}
	if got := made(); !slices.Equal(got, contract.ListActions()) {
		t.Errorf("got the calls %v, want %v", got, contract.ListActions())
	}
	calls, retires = nil, true
	if err := edge.Retire(ctx, l, 2); err != nil {
		t.Error(err)
	}
	if got := made(); !slices.Equal(got, contract.RetireActions()) {
		t.Errorf("Retire: got the calls %v, want %v", got, contract.RetireActions())
	}
}
