package runtimeproxy_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/weir-limits/weir/functions/runtimeproxy"
)

const (
	streamType  = "application/vnd.awslambda.http-integration-response"
	streamHead  = `{"statusCode":201,"headers":{"a":"b","weir-cost":"9"},"cookies":["c=d"]}`
	streamZeros = "\x00\x00\x00\x00\x00\x00\x00\x00"
)

// stream posts a streamed answer whose chunks come from a channel. The result is the status.
func (l *layered) stream(id, contentType string, trailer http.Header) (chunks chan<- string, status <-chan int) {
	l.t.Helper()
	r, w := io.Pipe()
	request, err := http.NewRequestWithContext(l.t.Context(), http.MethodPost, l.server.URL+"/2018-06-01/runtime/invocation/"+id+"/response",
		r)
	if err != nil {
		l.t.Fatal(err)
	}
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Lambda-Runtime-Function-Response-Mode", "streaming")
	request.Trailer = trailer
	sent, done := make(chan string), make(chan int, 1)
	go func() {
		for chunk := range sent {
			_, _ = io.WriteString(w, chunk)
		}
		_ = w.Close()
	}()
	go func() {
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			close(done)
			return
		}
		_ = response.Body.Close()
		done <- response.StatusCode
	}()
	return sent, done
}

// A streamed answer passes chunk by chunk, with the fields in its metadata, and with its trailers.
func TestProxy_stream(t *testing.T) {
	failed := http.Header{"Lambda-Runtime-Function-Error-Type": {"Own.Error"}, "Lambda-Runtime-Function-Error-Body": {"e30="}}
	for _, c := range []struct {
		name, contentType string
		chunks            []string
		trailer           http.Header
		want              string // the beginning that Lambda reads before the last chunk
		fields            bool
		used              string
	}{
		{"metadata", streamType, []string{streamHead + streamZeros + "abc", "def"}, nil, `"statusCode":201}` + streamZeros + "abc",
			true, "9 6 0 0"},
		{"metadata in parts", streamType, []string{streamHead[:5], streamHead[5:] + streamZeros[:3], streamZeros[3:], "abc", "def"}, nil,
			`"statusCode":201}` + streamZeros + "abc", true, "9 6 0 0"},
		{"no status", streamType, []string{`{}` + streamZeros, "abc", "def"}, nil, streamZeros + "abc", true, "100 6 0 0"},
		{"failure", streamType, []string{`{"statusCode":502}` + streamZeros + "abc", "def"}, nil, `"statusCode":502}` + streamZeros + "abc", true,
			"100 6 1 0"},
		{"an error at the end", streamType, []string{streamHead + streamZeros + "abc", "def"}, failed, "abc", true, "9 6 1 0"},
		{"other metadata", streamType, []string{"oops" + streamZeros + "abc", "def"}, nil, "oops" + streamZeros + "abc", false, "100 6 1 0"},
		{"no metadata", "text/html", []string{streamHead + "abc", "def"}, nil, streamHead + "abc", false, "100 78 0 0"},
	} {
		e := environment(t, settling, nil)
		l := newLayered(t, e, false)
		var begun strings.Builder
		seen := make(chan struct{})
		var trailer http.Header
		l.reading = func(r *http.Request) {
			b := bufio.NewReader(r.Body)
			for !strings.HasSuffix(begun.String(), c.want) {
				one, err := b.ReadByte()
				if err != nil {
					break
				}
				begun.WriteByte(one)
			}
			close(seen)
			rest, _ := io.ReadAll(b)
			begun.Write(rest)
			trailer = r.Trailer
		}
		next := l.request()
		l.events <- event{payload: sample(t, "http-api-anonymous.json")}
		chunks, status := l.stream((<-next).id, c.contentType, c.trailer)
		for _, chunk := range c.chunks[:len(c.chunks)-1] {
			chunks <- chunk
		}
		<-seen // Lambda has the beginning, before the function has sent the end
		chunks <- c.chunks[len(c.chunks)-1]
		close(chunks)
		if got := <-status; got != http.StatusAccepted {
			t.Errorf("%s: status: got %d, want 202", c.name, got)
		}
		a := <-l.answers
		if got := begun.String(); !strings.HasSuffix(got, c.want+"def") || strings.Contains(got, `"X-RateLimit-Limit":`) != c.fields ||
			c.fields && strings.Contains(got, "weir-cost") {
			t.Errorf("%s: answer: got %q, want %q at its end, and fields: %t", c.name, got, c.want+"def", c.fields)
		}
		if a.header.Get("Content-Type") != c.contentType || a.header.Get("Lambda-Runtime-Function-Response-Mode") != "streaming" {
			t.Errorf("%s: header: got %v, want that of the runtime", c.name, a.header)
		}
		for name := range failed {
			if trailer.Get(name) != c.trailer.Get(name) {
				t.Errorf("%s: trailer %s: got %q, want %q", c.name, name, trailer.Get(name), c.trailer.Get(name))
			}
		}
		next = l.request()
		l.events <- event{payload: []byte(`{}`)}
		<-next
		if got := used(t, e); got != c.used {
			t.Errorf("%s: used: got %s, want %s", c.name, got, c.used)
		}
	}
}

// early responds to a streamed answer when it has read "abc", and reads the rest afterwards. http.RoundTripper
// allows this. A status of 0 is an error.
type early struct {
	status    int
	responded chan struct{}
	read      atomic.Bool     // the body of the response; then net/http stops sending an accepted answer
	rest      strings.Builder // after "abc"
}

// RoundTrip implements http.RoundTripper.
func (e *early) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, "/response") {
		return http.DefaultTransport.RoundTrip(r)
	}
	var begun []byte
	for b := make([]byte, 1); !bytes.HasSuffix(begun, []byte("abc")); begun = append(begun, b...) {
		if _, err := r.Body.Read(b); err != nil {
			return nil, err
		}
	}
	go func() {
		for range 200_000 { // time for a proxy that does not wait
			runtime.Gosched()
		}
		if e.status != http.StatusAccepted || !e.read.Load() {
			_, _ = io.Copy(&e.rest, r.Body)
		}
		_ = r.Body.Close()
	}()
	defer close(e.responded)
	if e.status == 0 {
		return nil, errors.New("closed")
	}
	return &http.Response{StatusCode: e.status, Header: http.Header{}, Body: io.NopCloser(e)}, nil
}

// Read reads the body of the response, which is empty.
func (e *early) Read([]byte) (int, error) {
	e.read.Store(true)
	return 0, io.EOF
}

// If Lambda responds to a streamed answer before its end, the rest of the answer still counts, and the
// settlement starts when nothing reads the answer any more.
func TestProxy_streamRespondedEarly(t *testing.T) {
	for _, c := range []struct {
		name    string
		status  int
		trailer http.Header
		want    int
		used    string
	}{
		{"accepted", http.StatusAccepted, nil, http.StatusAccepted, "9 6 0 0"},
		{"an error at the end", http.StatusAccepted, http.Header{"Lambda-Runtime-Function-Error-Type": {"Own.Error"}}, http.StatusAccepted,
			"9 6 1 0"},
		{"rejected", http.StatusRequestEntityTooLarge, nil, http.StatusRequestEntityTooLarge, "9 6 1 0"},
		{"failed", 0, nil, http.StatusBadGateway, "9 6 1 0"},
	} {
		lambda := &early{status: c.status, responded: make(chan struct{})}
		restore := runtimeproxy.SetTransport(lambda)
		e := environment(t, settling, nil)
		l := newLayered(t, e, false)
		next := l.request()
		l.events <- event{payload: sample(t, "http-api-anonymous.json")}
		chunks, status := l.stream((<-next).id, streamType, c.trailer)
		chunks <- streamHead + streamZeros + "abc"
		<-lambda.responded
		chunks <- "def"
		close(chunks)
		if got := <-status; got != c.want {
			t.Errorf("%s: status: got %d, want %d", c.name, got, c.want)
		}
		next = l.request()
		l.events <- event{payload: []byte(`{}`)}
		<-next
		if got := used(t, e); got != c.used || lambda.rest.String() != "def" {
			t.Errorf("%s: used: got %s and the rest %q, want %s and def", c.name, got, lambda.rest.String(), c.used)
		}
		restore()
	}
}

// With RESPONSE_STREAM, a refusal is a stream with the status and the fields in its metadata. Lambda would
// send a refusal that is not streamed as the body of a 200. A load balancer has no streams.
func TestProxy_streamedRefusal(t *testing.T) {
	e := environment(t, limited, nil)
	e.ResponseStream = true
	l := newLayered(t, e, false)
	for i, name := range []string{"function-url-anonymous.json", "function-url-anonymous.json", "function-url-anonymous.json",
		"alb-anonymous.json", "alb-anonymous.json", "alb-anonymous.json"} {
		got, ran := l.send(sample(t, name), `{"statusCode":204}`)
		if ran != (i%3 < 2) {
			t.Fatalf("request %d: the function ran: got %t, want %t", i+1, ran, i%3 < 2)
		}
		mode, kind := got.header.Get("Lambda-Runtime-Function-Response-Mode"), got.header.Get("Content-Type")
		switch i {
		case 2:
			metadata, body, found := bytes.Cut(got.body, []byte(streamZeros))
			var head struct {
				StatusCode int
				Headers    map[string]string
			}
			if err := json.Unmarshal(metadata, &head); err != nil || !found || head.StatusCode != http.StatusTooManyRequests ||
				head.Headers["Retry-After"] == "" || !bytes.Contains(body, []byte(`"status":429`)) {
				t.Errorf("refusal: got %q, want the metadata of a 429 and its problem document", got.body)
			}
			if mode != "streaming" || kind != streamType || !got.chunked {
				t.Errorf("refusal: got mode %q, type %q, in chunks: %t, want a stream", mode, kind, got.chunked)
			}
		case 5:
			if mode != "" || kind != "application/json" || !bytes.Contains(got.body, []byte(`"statusCode":429`)) {
				t.Errorf("load balancer: got mode %q, type %q, %s, want JSON", mode, kind, got.body)
			}
		}
	}
}

// The metadata is found wherever the reads of the body end.
func TestReadPrelude(t *testing.T) {
	long := strings.Repeat("x", 1<<17)
	for _, c := range []struct {
		text, metadata, rest string
		ok                   bool
	}{
		{streamHead + streamZeros + "abc", streamHead, "abc", true},
		{streamZeros, "", "", true},
		{"{}" + streamZeros + streamZeros, "{}", streamZeros, true},
		{"{}" + streamZeros[1:] + "a", "", "{}" + streamZeros[1:] + "a", false},
		{"", "", "", false},
		{long[:5000] + streamZeros + "a", long[:5000], "a", true},
		{long, "", long, false},
	} {
		for name, r := range map[string]io.Reader{"bytes": iotest.OneByteReader(strings.NewReader(c.text)),
			"halves": iotest.HalfReader(strings.NewReader(c.text)), "whole": strings.NewReader(c.text)} {
			metadata, rest, ok := runtimeproxy.ReadPrelude(r)
			after, err := io.ReadAll(r)
			rest = append(bytes.Clone(rest), after...)
			if string(metadata) != c.metadata || string(rest) != c.rest || ok != c.ok || err != nil {
				t.Errorf("%.20q by %s: got %.20q, %.20q of %d bytes, %t, %v, want %.20q, %.20q, %t", c.text, name, metadata, rest, len(rest), ok, err,
					c.metadata, c.rest, c.ok)
			}
		}
	}
	if _, rest, ok := runtimeproxy.ReadPrelude(io.MultiReader(strings.NewReader("ab"), iotest.ErrReader(errors.New("closed")))); ok ||
		string(rest) != "ab" {
		t.Errorf("after an error: got %q, %t, want the bytes before it", rest, ok)
	}
}

// The events of a stream have the cost, with metadata and without.
func TestProxy_stream_metering(t *testing.T) {
	const document = `{"rules":[{"endpoint":"*","limits":{"global":{"name":"cost","requests":1000,"window":"1h","count":"cost","per":["ip"],
		"reserve":100,"from":{"json":"n"}}}}]}`
	for contentType, metadata := range map[string]string{
		"text/event-stream": "", streamType: `{"headers":{"content-type":"text/event-stream"}}` + streamZeros,
	} {
		e := environment(t, document, nil)
		l := newLayered(t, e, false)
		next := l.request()
		l.events <- event{payload: sample(t, "http-api-anonymous.json")}
		chunks, status := l.stream((<-next).id, contentType, nil)
		for _, chunk := range []string{metadata + "data: {\"n", "\":7}\n", "\ndata: [DO", "NE]\n\n"} {
			chunks <- chunk
		}
		close(chunks)
		if got := <-status; got != http.StatusAccepted {
			t.Errorf("%s: status: got %d, want 202", contentType, got)
		}
		next = l.request()
		l.events <- event{payload: []byte(`{}`)}
		<-next
		if got := used(t, e); got != "7" {
			t.Errorf("%s: used: got %s, want 7", contentType, got)
		}
	}
}
