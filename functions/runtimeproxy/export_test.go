package runtimeproxy

import (
	"bufio"
	"io"
	"net/http"
)

// ReadPrelude is readPrelude for tests. rest has the bytes that it has not read.
func ReadPrelude(r io.Reader) (metadata, rest []byte, ok bool) {
	b := bufio.NewReaderSize(r, maxPrelude)
	metadata, ok = readPrelude(b)
	rest, _ = io.ReadAll(b)
	return metadata, rest, ok
}

// AwaitRuntime is awaitRuntime for tests.
func (x *Extension) AwaitRuntime(requested <-chan struct{}) {
	x.awaitRuntime(requested)
}

// SetTransport replaces the transport of the client of Lambda's APIs until restore.
func SetTransport(t http.RoundTripper) (restore func()) {
	before := client.Transport
	client.Transport = t
	return func() { client.Transport = before }
}

// Running returns the number of invocations that p keeps.
func (p *Proxy) Running() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.running)
}
