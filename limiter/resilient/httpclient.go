package resilient

import (
	"io"
	"net/http"
)

// HTTPClient is an HTTP client for the AWS SDK that loses no answer on a busy machine. The SDK closes the
// body of a request when the answer arrives. A transport that then looks for the end of the body with
// WriteTo gets io.EOF as an error, and closes the connection before the answer is read. So HTTPClient
// hides WriteTo.
type HTTPClient struct{ Doer }

// Doer sends an HTTP request.
type Doer interface {
	Do(r *http.Request) (*http.Response, error)
}

// Do implements Doer.
func (c HTTPClient) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return c.Doer.Do(r)
}
