package gateway

import (
	"io"
	"net/http"
	"time"
)

// WithBodyTimeout returns h with requests whose body arrives within a time from when their
// header has been read, or else cannot be read any further. What h does afterwards has no
// limit. A server's ReadTimeout would end that too, and answers that are streams.
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

// timedBody is a body whose connection has a deadline until the body has ended.
type timedBody struct {
	io.ReadCloser
	connection *http.ResponseController
}

// Read implements io.Reader.
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.connection.SetReadDeadline(time.Time{}) // it had one before
	}
	return n, err
}
