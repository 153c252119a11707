package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/local/gateway"
)

// If a client never completes the request body, both APIs answer 408. The deadline no longer
// applies when the body is complete.
func TestWithBodyTimeout(t *testing.T) {
	both(t, func(t *testing.T, kind gateway.Kind, api *gateway.API, function *stub) {
		server := httptest.NewServer(gateway.WithBodyTimeout(api, 20*time.Millisecond))
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

func TestWithBodyTimeout_after(t *testing.T) {
	const timeout = 20 * time.Millisecond
	ended := make(chan error)
	server := httptest.NewServer(gateway.WithBodyTimeout(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		select {
		case <-r.Context().Done(): // if the read deadline remained on the connection, it would cancel the context
			err = r.Context().Err()
		case <-time.After(5 * timeout):
		}
		ended <- err
		w.WriteHeader(http.StatusNoContent)
	}), timeout))
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if response, err := http.DefaultClient.Do(r); err == nil {
			_ = response.Body.Close()
		}
	}()
	if err := <-ended; err != nil {
		t.Errorf("request with a complete body: got error %v, want none", err)
	}
}
