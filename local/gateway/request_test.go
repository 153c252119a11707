package gateway_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/weir-limits/weir/local/gateway"
)

// broken is a body whose reader fails before the end.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestRequest_BodyTruncated(t *testing.T) {
	both(t, func(t *testing.T, _ gateway.Kind, api *gateway.API, function *stub) {
		if got := do(api, request(t, "POST", "/open/x", broken{})); got.status != http.StatusBadRequest || function.calls() != 0 {
			t.Errorf("status and calls: got %d and %d, want 400 and 0", got.status, function.calls())
		}
	})
}

// The gateway takes the source address from the connection, never from a header. It writes the
// address in the format of AWS.
func TestRequest_SourceIP(t *testing.T) {
	tests := []struct{ remote, want string }{
		{"192.0.2.7:1234", "192.0.2.7"},
		{"[2001:db8::1]:1234", "2001:db8::1"},
		{"[::ffff:192.0.2.7]:1234", "192.0.2.7"},
		{"[fe80::1%eth0]:1234", "fe80::1"},
		{"@", ""},
	}
	for _, tt := range tests {
		t.Run(tt.remote, func(t *testing.T) {
			both(t, func(t *testing.T, kind gateway.Kind, api *gateway.API, function *stub) {
				r := request(t, "GET", "/", http.NoBody)
				r.RemoteAddr = tt.remote
				r.TLS = &tls.ConnectionState{}
				r.Header.Set("X-Forwarded-For", "203.0.113.9")
				r.Header.Set("X-Forwarded-Proto", "gopher")
				r.Header.Set("X-Forwarded-Port", "70")
				do(api, r)
				got, header := seen(t, kind, function)
				if got != tt.want {
					t.Errorf("source address: got %q, want %q", got, tt.want)
				}
				if want := "203.0.113.9, " + tt.want; header["X-Forwarded-For"] != want || header["X-Forwarded-Proto"] != "https" ||
					header["X-Forwarded-Port"] != "443" {
					t.Errorf("forwarding headers: got %v, want %q, https and port 443", header, want)
				}
			})
		})
	}
}

// seen returns the source address and the headers in the event that the function received.
func seen(t *testing.T, kind gateway.Kind, function *stub) (source string, header map[string]string) {
	t.Helper()
	if kind == gateway.REST {
		event := decode[events.APIGatewayProxyRequest](t, function.event(t))
		return event.RequestContext.Identity.SourceIP, event.Headers
	}
	event := decode[events.APIGatewayV2HTTPRequest](t, function.event(t))
	header = map[string]string{}
	for name, value := range event.Headers {
		header[http.CanonicalHeaderKey(name)] = value
	}
	return event.RequestContext.HTTP.SourceIP, header
}

func TestRequest_SignatureDropped(t *testing.T) {
	both(t, func(t *testing.T, _ gateway.Kind, api *gateway.API, function *stub) {
		r := request(t, "GET", "/", http.NoBody)
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=x")
		do(api, r)
		if got := string(function.event(t)); strings.Contains(got, "AWS4") {
			t.Errorf("event: got %s, want no signature", got)
		}
	})
}

// The request "OPTIONS *" has no path. Without a default route, both APIs reject it.
func TestRequest_NoPath(t *testing.T) {
	want := map[gateway.Kind]int{gateway.REST: http.StatusForbidden, gateway.HTTP: http.StatusNotFound}
	both(t, func(t *testing.T, kind gateway.Kind, api *gateway.API, _ *stub) {
		r := request(t, "OPTIONS", "/", http.NoBody)
		r.URL.Path, r.RequestURI = "*", "*"
		if got := do(api, r); got.status != want[kind] {
			t.Errorf("status: got %d, want %d", got.status, want[kind])
		}
	})
}
