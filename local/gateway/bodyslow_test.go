package gateway_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-limits/weir/local/gateway"
)

// If a client never completes the request body, both APIs answer 408.
func TestRequest_BodySlow(t *testing.T) {
	both(t, func(t *testing.T, kind gateway.Kind, api *gateway.API, function *stub) {
		server := httptest.NewUnstartedServer(api)
		server.Config.ReadTimeout = 20 * time.Millisecond
		server.Start()
		defer server.Close()
		connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close() //nolint:errcheck // an error of Close is irrelevant: the test only reads now
		if _, err := fmt.Fprint(connection, "POST /open/x HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nx"); err != nil {
			t.Fatal(err)
		}
		got, err := http.ReadResponse(bufio.NewReader(connection), nil)
		if err != nil || got.StatusCode != http.StatusRequestTimeout || function.calls() != 0 {
			t.Errorf("%s API: got %+v, error %v and %d calls, want status 408 and 0 calls", kind, got, err, function.calls())
		}
	})
}
