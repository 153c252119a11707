package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-limits/weir/local/gateway"
	"github.com/weir-limits/weir/local/gateway/template/templatetest"
	"github.com/weir-limits/weir/local/lambdaenv"
)

func TestGateway_Invoke(t *testing.T) {
	settle := &stub{answer: func(_ context.Context, event []byte) ([]byte, error) {
		switch string(event) {
		case `"fail"`:
			return nil, fmt.Errorf("no \"store\"")
		case `"busy"`:
			return nil, fmt.Errorf("function Forward: %w", lambdaenv.ErrThrottled)
		}
		return event, nil
	}}
	g, err := gateway.New(templatetest.Parse(t, "template/testdata/good/accesslog.json"), gateway.Options{
		Functions: functions{"Authorizer": says(""), "Handler": says(""), "Settle": settle},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(g.Invoke())
	defer server.Close()
	const arn = "arn%3Aaws%3Alambda%3Aus-east-1%3A123456789012%3Afunction%3ASettle"
	large := `"` + strings.Repeat("x", 6<<20) + `"`
	for _, c := range []struct {
		name, kind, event string
		status            int
		failed, body      string // failed is the value of X-Amz-Function-Error or X-Amzn-ErrorType
	}{
		{"Settle", "", `{"a":1}`, 200, "", `{"a":1}`},
		{arn, "RequestResponse", `{"a":1}`, 200, "", `{"a":1}`},
		{"Settle", "Event", `{"a":1}`, 202, "", ""},
		{"Settle", "Event", `"fail"`, 202, "", ""},
		{"Settle", "", `"fail"`, 200, "Unhandled", `{"errorMessage":"no \"store\"","errorType":"*errors.errorString"}`},
		{"Settle", "", `"busy"`, 429, "TooManyRequestsException", `{"Type":"User","Message":"Rate Exceeded."}`},
		{"ettle", "", `{}`, 404, "ResourceNotFoundException", `{"Type":"User","Message":"Function not found: ettle"}`},
		{"Settle", "", `{`, 400, "InvalidRequestContentException", `{"Type":"User","Message":"Could not parse request body into json"}`},
		{"Settle", "", large, 413, "RequestTooLargeException", `{"Type":"User","Message":"Request must be smaller than 6291456 bytes for the InvokeFunction operation"}`},
	} {
		got := send(t, server, http.MethodPost, "/2015-03-31/functions/"+c.name+"/invocations", c.event, "X-Amz-Invocation-Type: "+c.kind)
		failed := got.header.Get("X-Amz-Function-Error") + got.header.Get("X-Amzn-Errortype")
		if got.status != c.status || failed != c.failed || got.body != c.body {
			t.Errorf("%s %s %.20s: got %d %s %s, want %d %s %s", c.kind, c.name, c.event, got.status, failed, got.body, c.status, c.failed, c.body)
		}
	}
}
