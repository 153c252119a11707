package gateway

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"
)

// The limits of API Gateway on a request (developer guide, "Quotas").
const (
	maxBody   = 10 << 20
	maxHeader = 10240 // bytes of all header lines; an HTTP API also counts the request line
	maxURL    = 10240 // characters of the URL of a regional REST API
)

// The reasons to reject a request before a route is selected.
var (
	errHeaderTooLarge = errors.New("header too large")
	errURLTooLong     = errors.New("URL too long")
	errBodyTooLarge   = errors.New("body too large")
	errBodyUnreadable = errors.New("body cannot be read")
	errBodyTooSlow    = errors.New("body too slow")
)

// request is a request whose header and body are within the limits.
type request struct {
	*http.Request

	at       time.Time
	id       string // request id of a REST API
	extended string // extended request id of a REST API, or request id of an HTTP API
	trace    string
	sourceIP string
	header   http.Header // header with the names that events have
	body     []byte
}

// receive checks the size of a request and reads its body. http.Server.MaxHeaderBytes has bounded
// the request line and the header before.
func receive(r *http.Request, now time.Time) (*request, error) {
	if r.ContentLength > maxBody {
		return nil, errBodyTooLarge
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, errBodyTooSlow
	}
	if err != nil {
		return nil, errBodyUnreadable
	}
	if len(body) > maxBody {
		return nil, errBodyTooLarge
	}
	in := &request{
		Request: r, at: now, body: body,
		id: uuid(), extended: extendedID(), trace: trace(r.Header, now), sourceIP: sourceIP(r.RemoteAddr),
	}
	in.header = in.eventHeader()
	return in, nil
}

// sentPath returns the path as the client sent it. A url.URL cannot hold a path with a malformed
// percent-encoding. The server of net/http rejects such a path, but this handler can also run
// behind another server.
func sentPath(r *http.Request) string {
	if path, _, _ := strings.Cut(r.RequestURI, "?"); strings.HasPrefix(path, "/") {
		return path
	}
	return r.URL.EscapedPath()
}

// headerSize returns the number of bytes that count towards the header limit.
func headerSize(r *http.Request) int {
	size := len(r.Host)
	for _, values := range r.Header {
		for _, value := range values {
			size += len(value)
		}
	}
	return size
}

// sourceIP returns the address of the connection (developer guide: "the source IP address of
// the immediate TCP connection"). Headers do not change it.
func sourceIP(remote string) string {
	if peer, err := netip.ParseAddrPort(remote); err == nil {
		return peer.Addr().Unmap().WithZone("").String()
	}
	return ""
}

// trace returns the X-Amzn-Trace-Id of the request. It keeps the client's value if that has a root,
// and creates a new value otherwise. Assumed: API Gateway keeps the value as AWS's load balancers
// do.
func trace(h http.Header, now time.Time) string {
	if given := h.Get("X-Amzn-Trace-Id"); strings.Contains(given, "Root=") {
		return given
	}
	return fmt.Sprintf("Root=1-%08x-%x", now.Unix(), random(12))
}

// answerTrace returns the X-Amzn-Trace-Id of a REST API's answer. Recorded: the answer adds a
// parent and a lineage to the trace id of the event.
func answerTrace(trace string) string {
	if !strings.Contains(trace, "Parent=") {
		trace += fmt.Sprintf(";Parent=%x;Sampled=0", random(8))
	}
	return trace + fmt.Sprintf(";Lineage=1:%x:0", random(4))
}

// uuid returns a new request id of a REST API.
func uuid() string {
	id := random(16)
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// extendedID returns a new id in the format that both kinds of API use.
func extendedID() string { return base64.URLEncoding.EncodeToString(random(11)) }

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // crypto/rand.Read never fails
	return b
}

// droppedFromRequest lists the headers that functions do not receive (developer guide, "Amazon API
// Gateway important notes", the column for Lambda). Assumed: HTTP APIs drop the same headers.
var droppedFromRequest = []string{
	"Connection", "Content-Md5", "Expect", "Max-Forwards", "Proxy-Authenticate", "Server", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "Www-Authenticate",
}

// eventHeader returns the header for the event. Its names have net/http's canonical case; API
// Gateway keeps the client's case.
func (in *request) eventHeader() http.Header {
	h := in.Header.Clone()
	for _, name := range droppedFromRequest {
		h.Del(name)
	}
	if strings.HasPrefix(h.Get("Authorization"), "AWS4-HMAC-SHA256") {
		h.Del("Authorization")
	}
	h.Set("Host", in.Host)
	// API Gateway appends the address of the connection to the client's value.
	h.Set("X-Forwarded-For", strings.Join(slices.Concat(in.Header.Values("X-Forwarded-For"), []string{in.sourceIP}), ", "))
	scheme, port := "http", "80"
	if in.TLS != nil {
		scheme, port = "https", "443"
	}
	if local, ok := in.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		if _, bound, err := net.SplitHostPort(local.String()); err == nil {
			port = bound
		}
	}
	h.Set("X-Forwarded-Port", port)
	h.Set("X-Forwarded-Proto", scheme)
	h.Set("X-Amzn-Trace-Id", in.trace)
	return h
}

const protocol = "HTTP/1.1"

// clf returns the time in the Common Log Format.
func clf(at time.Time) string { return at.UTC().Format("02/Jan/2006:15:04:05 -0700") }

func domainPrefix(host string) string {
	prefix, _, _ := strings.Cut(host, ".")
	return prefix
}

// lastValues returns the last value of each name, as payload version 1.0 does. For an empty map it
// returns nil, which is null in JSON.
func lastValues(all map[string][]string) map[string]string {
	if len(all) == 0 {
		return nil
	}
	values := make(map[string]string, len(all))
	for name, list := range all {
		values[name] = list[len(list)-1]
	}
	return values
}
