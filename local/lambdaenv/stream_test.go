package lambdaenv_test

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
)

// streamed is a runtime that streams its answers. An event is the URL of a gate between the two parts, or the
// name of a failure.
func streamed() {
	for {
		r, err := http.Get(api("invocation/next")) //nolint:noctx // a runtime waits for an event without a deadline
		if err != nil {
			return
		}
		event, _ := io.ReadAll(r.Body)
		_ = r.Body.Close()
		path := "invocation/" + r.Header.Get("Lambda-Runtime-Aws-Request-Id") + "/response"
		if string(event) == "truncated" {
			truncate(path)
			continue
		}
		body, w := io.Pipe()
		request, err := http.NewRequest(http.MethodPost, api(path), body) //nolint:noctx // as above
		if err != nil {
			panic(err)
		}
		request.Header.Set("Lambda-Runtime-Function-Response-Mode", "streaming")
		request.Trailer = http.Header{"Lambda-Runtime-Function-Error-Type": nil, "Lambda-Runtime-Function-Error-Body": nil}
		go func() { _ = w.CloseWithError(writeParts(w, string(event), request.Trailer)) }()
		if r, err := http.DefaultClient.Do(request); err == nil {
			_ = r.Body.Close()
		}
	}
}

func writeParts(w io.Writer, event string, trailers http.Header) error {
	switch event {
	case "trailers":
		trailers.Set("Lambda-Runtime-Function-Error-Type", "Function.Broken")
		trailers.Set("Lambda-Runtime-Function-Error-Body", base64.StdEncoding.EncodeToString([]byte(`{"errorMessage":"too late"}`)))
	case "plain":
		trailers.Set("Lambda-Runtime-Function-Error-Type", "Function.Broken")
		trailers.Set("Lambda-Runtime-Function-Error-Body", "no base64")
	case "large":
		_, err := io.Copy(w, io.LimitReader(zeros{}, 200<<20+1))
		return err
	}
	if _, err := io.WriteString(w, "first "); err != nil || !strings.HasPrefix(event, "http") {
		return err
	}
	r, err := http.Get(event) //nolint:noctx // the test opens its gate
	if err != nil {
		return err
	}
	_ = r.Body.Close()
	_, err = io.WriteString(w, "second")
	return err
}

// zeros is a reader without an end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// truncate sends a part of an answer and disconnects.
func truncate(path string) {
	address := os.Getenv("AWS_LAMBDA_RUNTIME_API")
	c, err := net.Dial("tcp", address) //nolint:noctx // a connection of loopback
	if err != nil {
		panic(err)
	}
	defer func() { _ = c.Close() }()
	_, _ = fmt.Fprintf(c, "POST /2018-06-01/runtime/%s HTTP/1.1\r\nHost: %s\r\nLambda-Runtime-Function-Response-Mode: streaming\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", path, address)
	_ = c.(*net.TCPConn).CloseWrite()
	_, _ = http.ReadResponse(bufio.NewReader(c), nil) // waits for the answer, so that the response has an outcome
}
