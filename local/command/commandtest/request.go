package commandtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// Clock is a clock that a test sets. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Set sets the time.
func (c *Clock) Set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

// Wait adds d to the time.
func (c *Clock) Wait(d time.Duration) { c.Set(c.Now().Add(d)) }

// Serve starts two servers, and closes them after the test. It passes their URLs to the function open,
// which returns their handlers.
func Serve(t *testing.T, open func(urls []string) ([]http.Handler, error)) (rest, web *httptest.Server) {
	t.Helper()
	rest, web = httptest.NewUnstartedServer(nil), httptest.NewUnstartedServer(nil)
	t.Cleanup(rest.Close)
	t.Cleanup(web.Close)
	handlers, err := open([]string{"http://" + rest.Listener.Addr().String(), "http://" + web.Listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	rest.Config.Handler, web.Config.Handler = handlers[0], handlers[1]
	rest.Start()
	web.Start()
	return rest, web
}

// Reply is an answer with its body.
type Reply struct {
	*http.Response
	Text string
}

// Send sends a request without a body. An empty token means none.
func Send(t *testing.T, method, url, token string) Reply {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return Do(t, request)
}

// Do sends a request.
func Do(t *testing.T, request *http.Request) Reply {
	t.Helper()
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	return Reply{r, string(text)}
}
