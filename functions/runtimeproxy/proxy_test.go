package runtimeproxy_test

import (
	"bytes"
	"context"
	"net/http"
	"testing"

	"github.com/weir-limits/weir/functions/lambdahttp"
)

// hosts are events of each host that the layer limits.
var hosts = []string{"http-api-anonymous.json", "function-url-anonymous.json", "alb-anonymous.json", "rest-authorized"}

func eventOf(t testing.TB, host string) []byte {
	t.Helper()
	if host == "rest-authorized" { // a REST API without Weir's authorizer
		return bytes.ReplaceAll(sample(t, "rest-proxy-anonymous.json"), []byte(`"weir": "allowed"`), []byte(`"org": "acme"`))
	}
	return sample(t, host)
}

// The layer refuses the requests that the Go handler refuses, with the same bytes.
func TestProxy_likeHandler(t *testing.T) {
	for _, host := range hosts {
		l := newLayered(t, environment(t, limited, nil), false)
		api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
		handler := lambdahttp.NewHandler(environment(t, limited, nil), api)
		payload := eventOf(t, host)
		for i := range 4 {
			want, err := handler.Invoke(context.Background(), payload)
			if err != nil {
				t.Fatal(err)
			}
			got, ran := l.send(payload, `{"statusCode":204}`)
			if ran != (i < 2) {
				t.Errorf("%s: request %d: the function ran: got %t, want %t", host, i+1, ran, i < 2)
			}
			if !ran && !bytes.Equal(got.body, want) {
				t.Errorf("%s: refusal: got %s, want %s", host, got.body, want)
			}
			if ran && !bytes.Contains(got.body, []byte("X-RateLimit-Remaining")) {
				t.Errorf("%s: answer: got %s, want the fields of the decision", host, got.body)
			}
		}
	}
}
