package operator

import (
	"encoding/hex"
	"net/netip"
	"regexp"
	"strings"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
)

// The kinds of subjects that do not identify a caller.
const (
	kindGlobal   = "global"
	kindEndpoint = "endpoint"
	kindCustom   = "custom"
)

const wantSubject = "want user:ID, apikey:ID, ip:ADDRESS, claim:NAME=VALUE, endpoint:METHOD:PATTERN, custom:KIND=VALUE or global; identities can be joined by |, and one endpoint can follow"

// maxSubject is the maximum length of a subject.
const maxSubject = 4096

// ParseSubject reads a subject in the form that explain prints. ipv6Bits is the prefix length of the
// network that counts as one IPv6 caller. 0 means 64.
func ParseSubject(text string, ipv6Bits int) (limiter.Subject, error) {
	subject, _, err := (&Operator{IPv6Bits: ipv6Bits}).parse(text)
	return subject, err
}

// parse reads a subject in the form that explain prints. %XX is the escape of a byte. Only bytes with a
// meaning in a subject need an escape. The returned caller has the identities of the subject.
func (o *Operator) parse(text string) (limiter.Subject, caller.Caller, error) {
	if len(text) > maxSubject {
		return limiter.Subject{}, caller.Caller{}, mistake("subject: got %d bytes, want at most %d", len(text), maxSubject)
	}
	kind, rest, _ := strings.Cut(text, ":")
	switch kind {
	case kindGlobal:
		if text == kindGlobal {
			return limiter.Global(), caller.Caller{}, nil
		}
	case kindEndpoint:
		if s, ok := endpointOf(rest); ok {
			return s, caller.Caller{}, nil
		}
	case kindCustom:
		if name, value, ok := strings.Cut(rest, "="); ok && name != "" {
			return limiter.Custom(unescape(name), unescape(value)), caller.Caller{}, nil
		}
	default:
		who, endpoint, split := strings.Cut(text, "|"+kindEndpoint+":")
		s, caller, err := o.identities(who)
		if err != nil || !split {
			return s, caller, err
		}
		if of, ok := endpointOf(endpoint); ok {
			return s.And(of), caller, nil
		}
	}
	return limiter.Subject{}, caller.Caller{}, mistake("subject: got %q, %s", text, wantSubject)
}

// identities reads a subject of one or more identities. The identities must be in the order of their
// names, because a subject in a store always has this order.
func (o *Operator) identities(text string) (subject limiter.Subject, caller caller.Caller, err error) {
	caller.Claims = map[string]string{}
	last := ""
	for i, part := range strings.Split(text, "|") {
		name, one, err := o.identity(part, &caller)
		if err != nil {
			return subject, caller, err
		}
		if name <= last {
			return subject, caller, mistake("subject: got %q after %s; want each identity once, in this order: apikey, claims by name, ip, user", part, last)
		}
		last = name
		if i > 0 {
			one = subject.And(one)
		}
		subject = one
	}
	return subject, caller, nil
}

// identity reads one identity into caller. It returns the name that rules use for the identity.
func (o *Operator) identity(part string, caller *caller.Caller) (name string, one limiter.Subject, err error) {
	kind, value, _ := strings.Cut(part, ":")
	if strings.HasPrefix(value, "~") {
		return "", one, mistake("subject: %q is the hash of a long name; want the name itself", part)
	}
	switch {
	case value == "":
	case kind == "user":
		caller.User = unescape(value)
		return kind, limiter.User(caller.User), nil
	case kind == "apikey":
		caller.APIKey = unescape(value)
		return kind, limiter.APIKey(caller.APIKey), nil
	case kind == "ip":
		caller.IP, err = o.address(part, value)
		return kind, limiter.IP(caller.IP), err
	case kind == "claim":
		if name, value, _ := strings.Cut(value, "="); name != "" && value != "" {
			name, value = unescape(name), unescape(value)
			caller.Claims[name] = value
			return kind + ":" + name, limiter.Claim(name, value), nil
		}
	}
	return "", one, mistake("subject: got %q, %s", part, wantSubject)
}

// address reads an address, or the network that counts as one caller.
func (o *Operator) address(part, text string) (netip.Prefix, error) {
	if text == "unknown" {
		return netip.Prefix{}, nil
	}
	if addr, err := netip.ParseAddr(text); err == nil {
		return o.prefix(addr), nil
	}
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return network, mistake("subject: %s: %q is no IP address (want one such as ip:203.0.113.7 or ip:2001:db8::1, or ip:unknown)", part, text)
	}
	if caller := o.prefix(network.Addr()); network.Masked() != caller {
		return network, mistake("subject: got %q, want %s: callers count by IPv4 address, or by an IPv6 network of IPV6_BITS", part, limiter.IP(caller))
	}
	return network.Masked(), nil
}

// endpointOf reads METHOD:PATTERN.
func endpointOf(text string) (limiter.Subject, bool) {
	method, pattern, ok := strings.Cut(text, ":")
	method, pattern = unescape(method), unescape(pattern)
	return limiter.Endpoint(method, pattern), ok && isEndpoint(method, pattern)
}

// isEndpoint reports whether a rule can have a method and an endpoint.
func isEndpoint(method, pattern string) bool {
	return strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" && (pattern == "*" || strings.HasPrefix(pattern, "/"))
}

var escaped = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

// unescape reverses the escapes of limiter.Subject. A % without a valid escape stays.
func unescape(text string) string {
	return escaped.ReplaceAllStringFunc(text, func(s string) string {
		b, _ := hex.DecodeString(s[1:]) // the expression accepts only hex digits
		return string(b)
	})
}
