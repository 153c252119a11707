package httpclient_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter/httpclient"
)

// The client waits for one second, as Retry-After requires, and repeats the request.
func ExampleTransport() {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()

	client := &http.Client{Transport: &httpclient.Transport{}}
	begun := time.Now()
	answer, err := client.Get(server.URL) //nolint:noctx // as a reader would write it
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = answer.Body.Close()
	fmt.Println(answer.StatusCode, requests.Load(), time.Since(begun) >= time.Second)
	// Output: 200 2 true
}

// If the wait exceeds MaxWait, the client returns the refusal. Later requests fail immediately.
func ExampleWaitError() {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()

	client := &http.Client{Transport: &httpclient.Transport{MaxWait: 5 * time.Second}}
	for range 3 {
		answer, err := client.Get(server.URL) //nolint:noctx // as a reader would write it
		if later, ok := errors.AsType[*httpclient.WaitError](err); ok {
			fmt.Println("retry in about", later.Wait.Round(time.Minute))
			continue
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = answer.Body.Close()
		fmt.Println(answer.StatusCode)
	}
	fmt.Println(requests.Load(), "request")
	// Output:
	// 429
	// retry in about 1h0m0s
	// retry in about 1h0m0s
	// 1 request
}
