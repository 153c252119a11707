package gateway

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The limits of API Gateway on a request (developer guide, "Quotas").
const (
	maxBody   = 10 << 20
	maxHeader = 10240 // bytes of header values; for an HTTP API with the request line
	maxURL    = 10240 // characters of the URL of a regional REST API
)

// Why a request is refused before it is routed.
var (
	errHeaderTooLarge = errors.New("header too large")
	errURLTooLong     = errors.New("URL too long")
	errBodyTooLarge   = errors.New("body too large")
	errBodyUnreadable = errors.New("body cannot be read")
	errBodyTooSlow    = errors.New("body too slow")
)

// request is a request that has been read, within the limits.
type request struct {
	*http.Request

	at       time.Time
	id       string
	extended string // id
	trace    string
	sourceIP string
	header   http.Header // as events carry it
	body     []byte
}

// receive reads a request. The request line and the header have been read by the
// server, within http.Server.MaxHeaderBytes; the body is read up to its limit and not
// further.
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
		id: rand.Text(), extended: rand.Text(), trace: trace(r.Header, now), sourceIP: sourceIP(r.RemoteAddr),
	}
	in.header = in.eventHeader()
	return in, nil
}

// sentPath is the path as the client sent it. A URL has no place for one with a malformed %,
// which the server of net/http rejects; other servers may pass it on.
func sentPath(r *http.Request) string {
	if path, _, _ := strings.Cut(r.RequestURI, "?"); strings.HasPrefix(path, "/") {
		return path
	}
	return r.URL.EscapedPath()
}

// headerSize is what the limit on headers counts.
func headerSize(r *http.Request) int {
	size := len(r.Host)
	for _, values := range r.Header {
		for _, value := range values {
			size += len(value)
		}
	}
	return size
}

// sourceIP is the address of the connection, whatever the client says in a header
// (developer guide: "the source IP address of the immediate TCP connection").
func sourceIP(remote string) string {
	if peer, err := netip.ParseAddrPort(remote); err == nil {
		return peer.Addr().Unmap().WithZone("").String()
	}
	return ""
}

// trace is the request's X-Amzn-Trace-Id: the client's, if it has a root, or a new
// one. That a client's is kept is assumed, from what AWS's load balancers do.
func trace(h http.Header, now time.Time) string {
	if given := h.Get("X-Amzn-Trace-Id"); strings.Contains(given, "Root=") {
		return given
	}
	var id [12]byte
	_, _ = rand.Read(id[:]) // never fails
	return fmt.Sprintf("Root=1-%08x-%s", now.Unix(), hex.EncodeToString(id[:]))
}

// droppedFromRequest are headers that no function sees (developer guide, "Amazon API
// Gateway important notes", the column for Lambda; for HTTP APIs assumed).
var droppedFromRequest = []string{
	"Connection", "Content-Md5", "Expect", "Max-Forwards", "Proxy-Authenticate", "Server", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "Www-Authenticate",
}

// eventHeader is the header as an event carries it. API Gateway keeps the case of the
// client's names; here they are in the canonical case of net/http.
func (in *request) eventHeader() http.Header {
	h := in.Header.Clone()
	for _, name := range droppedFromRequest {
		h.Del(name)
	}
	if strings.HasPrefix(h.Get("Authorization"), "AWS4-HMAC-SHA256") {
		h.Del("Authorization")
	}
	h.Set("Host", in.Host)
	// API Gateway appends the connection's address to what the client sends.
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

// protocol is what events say of any request: to a function API Gateway speaks no
// other.
const protocol = "HTTP/1.1"

// epoch is the instant in milliseconds since 1970.
func epoch(at time.Time) string { return strconv.FormatInt(at.UnixMilli(), 10) }

// clf is the instant in the Common Log Format.
func clf(at time.Time) string { return at.UTC().Format("02/Jan/2006:15:04:05 -0700") }

// domainPrefix is the first label of a host name.
func domainPrefix(host string) string {
	prefix, _, _ := strings.Cut(host, ".")
	return prefix
}

// lastValues keeps the last of several values, as version 1.0 of the events does. It
// returns nil, which is null in JSON, for none.
func lastValues(all map[string][]string) map[string]string {
	if len(all) == 0 {
		return nil
	}
	values := make(map[string]string, len(all))
	for name := range all {
		if value, ok := last(all[name]); ok {
			values[name] = value
		}
	}
	return values
}
