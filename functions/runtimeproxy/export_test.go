package runtimeproxy

import "net/http"

// ReadPrelude is readPrelude for tests.
var ReadPrelude = readPrelude

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
