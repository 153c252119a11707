package lambdahttp

import (
	"net/http"

	"github.com/weir-limits/weir/limiter/httplimit"
)

// AuthorizerEvent is an authorizerEvent for tests.
type AuthorizerEvent struct {
	Type, MethodARN, Method, Path, Domain, SourceIP string
	Header                                          http.Header
}

// ParseAuthorizerEvent is parseAuthorizerEvent for tests.
func ParseAuthorizerEvent(payload []byte, fields ...string) (AuthorizerEvent, error) {
	e, err := parseAuthorizerEvent(payload, credentialFields, fields)
	return AuthorizerEvent{e.kind, e.methodARN, e.method, e.path, e.domain, e.sourceIP, e.header}, err
}

// Gate returns the gate of the environment, for tests of Gate.Wrap.
func (e *Environment) Gate() *httplimit.Gate { return e.gate(e.settled) }
