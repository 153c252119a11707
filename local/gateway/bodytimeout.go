package gateway

import (
	"io"
	"net/http"
	"time"
)

// WithBodyTimeout limits the time in which h can read the body of a request. The time starts when the
// server has read the header. After h has read the body, the timeout has no effect: it does not limit a
// streamed answer, for example. (The ReadTimeout of http.Server would limit the answer too.)
func WithBodyTimeout(h http.Handler, timeout time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			connection := http.NewResponseController(w)
			if connection.SetReadDeadline(time.Now().Add(timeout)) == nil {
				r.Body = &timedBody{r.Body, connection}
			}
		}
		h.ServeHTTP(w, r)
	})
}

// timedBody is a request body. Its connection has a read deadline until the body ends.
type timedBody struct {
	io.ReadCloser
	connection *http.ResponseController
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.connection.SetReadDeadline(time.Time{}) // no error, because the first SetReadDeadline succeeded
	}
	return n, err
}
