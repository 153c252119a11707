package operator

import (
	"encoding/hex"
	"net/http"
	"net/netip"
	"regexp"
	"strings"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
)

// The kinds of subjects that do not identify a caller.
const (
	kindGlobal   = "global"
	kindEndpoint = "endpoint"
	kindCustom   = "custom"
)

const wantSubject = "want user:ID, apikey:ID, ip:ADDRESS, claim:NAME=VALUE, path:NAME=VALUE, method:METHOD, header:NAME=VALUE, " +
	"endpoint:METHOD:PATTERN, custom:KIND=VALUE or global; parts can be joined by |, and one endpoint can follow"

const maxSubject = 4096

// ParseCaller reads a caller: user:ID, apikey:ID or ip:ADDRESS. ipv6Bits is the prefix length of the network that counts as
// one IPv6 caller; 0 means 64.
func ParseCaller(text string, ipv6Bits int) (limiter.Subject, caller.Caller, error) {
	kind, _, _ := strings.Cut(text, ":")
	if kind != "user" && kind != "apikey" && kind != "ip" || strings.Contains(text, "|") {
		return limiter.Subject{}, caller.Caller{}, Mistake("caller: got %q, want user:ID, apikey:ID or ip:ADDRESS", text)
	}
	subject, values, err := (&Operator{IPv6Bits: ipv6Bits}).parse(text)
	return subject, values.Caller, err
}

// parse reads a subject in the form that explain prints. %XX is the escape of a byte. Only bytes with a
// meaning in a subject need an escape. parse also returns the values in the subject.
func (o *Operator) parse(text string) (limiter.Subject, rules.Request, error) {
	if len(text) > maxSubject {
		return limiter.Subject{}, rules.Request{}, Mistake("subject: got %d bytes, want at most %d", len(text), maxSubject)
	}
	kind, rest, _ := strings.Cut(text, ":")
	switch kind {
	case kindGlobal:
		if text == kindGlobal {
			return limiter.Global(), rules.Request{}, nil
		}
	case kindEndpoint:
		if s, ok := endpointOf(rest); ok {
			return s, rules.Request{}, nil
		}
	case kindCustom:
		if name, value, ok := strings.Cut(rest, "="); ok && name != "" {
			return limiter.Custom(unescape(name), unescape(value)), rules.Request{}, nil
		}
	default:
		who, endpoint, split := strings.Cut(text, "|"+kindEndpoint+":")
		s, values, err := o.parts(who)
		if err != nil || !split {
			return s, values, err
		}
		if of, ok := endpointOf(endpoint); ok {
			return s.And(of), values, nil
		}
	}
	return limiter.Subject{}, rules.Request{}, Mistake("subject: got %q, %s", text, wantSubject)
}

// parts reads a subject of one or more parts. The parts must be in the order that a subject in a store
// always has: claims, header fields, the method and parameters by name, and then the identities by name.
func (o *Operator) parts(text string) (subject limiter.Subject, v rules.Request, err error) {
	v = rules.Request{Caller: caller.Caller{Claims: map[string][]string{}}, Header: http.Header{}, Parameters: map[string]string{}}
	last := ""
	for i, part := range strings.Split(text, "|") {
		order, one, err := o.part(part, &v)
		if err != nil {
			return subject, v, err
		}
		if order <= last {
			return subject, v, Mistake("subject: got %q in the wrong place; want each part once, in this order: claim, header, method and path "+
				"by name, then apikey, ip, user", part)
		}
		last = order
		if i > 0 {
			one = subject.And(one)
		}
		subject = one
	}
	return subject, v, nil
}

// part reads one part of a subject into v, and returns the part as a subject. order is the sort key of the
// part within its subject.
func (o *Operator) part(part string, v *rules.Request) (order string, one limiter.Subject, err error) {
	const afterWords = "~" // "~" sorts after letters, so user, apikey and ip follow all other parts
	kind, value, _ := strings.Cut(part, ":")
	if strings.HasPrefix(value, "~") {
		return "", one, Mistake("subject: %q is the hash of a long name; want the name itself", part)
	}
	switch {
	case value == "":
	case kind == "user":
		v.Caller.User = unescape(value)
		return afterWords + kind, limiter.User(v.Caller.User), nil
	case kind == "apikey":
		v.Caller.APIKey = unescape(value)
		return afterWords + kind, limiter.APIKey(v.Caller.APIKey), nil
	case kind == "ip":
		v.Caller.IP, err = o.address(part, value)
		return afterWords + kind, limiter.IP(v.Caller.IP), err
	case kind == "method":
		v.Method = methodOf(unescape(value))
		return kind, limiter.Method(v.Method), nil
	default:
		if name, value, ok := strings.Cut(value, "="); ok && name != "" {
			return namedPart(part, kind, unescape(name), unescape(value), v)
		}
	}
	return "", one, Mistake("subject: got %q, %s", part, wantSubject)
}

// namedPart reads a claim, a header field or a parameter of the path into v.
func namedPart(part, kind, name, value string, v *rules.Request) (order string, one limiter.Subject, err error) {
	switch {
	case kind == "claim" && value != "":
		v.Caller.Claims[name], one = []string{value}, limiter.Claim(name, value)
	case kind == "header":
		name = strings.ToLower(name)
		v.Header.Set(name, value)
		one = limiter.Header(name, value)
	case kind == "path":
		v.Parameters[name], one = value, limiter.PathParameter(name, value)
	default:
		return "", one, Mistake("subject: got %q, %s", part, wantSubject)
	}
	return kind + ":" + name, one, nil
}

// methodOf returns a method in upper case. It does not change "other", which stands for all methods that
// no rule can name.
func methodOf(text string) string {
	switch method := strings.ToUpper(text); method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return method
	}
	return text
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
		return network, Mistake("subject: %s: %q is no IP address (want one such as ip:203.0.113.7 or ip:2001:db8::1, or ip:unknown)", part, text)
	}
	if caller := o.prefix(network.Addr()); network.Masked() != caller {
		return network, Mistake("subject: got %q, want %s: callers count by IPv4 address, or by an IPv6 network of IPV6_BITS", part,
			limiter.IP(caller))
	}
	return network.Masked(), nil
}

// endpointOf reads METHOD:PATTERN.
func endpointOf(text string) (limiter.Subject, bool) {
	method, pattern, ok := strings.Cut(text, ":")
	method, pattern = unescape(method), unescape(pattern)
	return limiter.Endpoint(method, pattern), ok && isEndpoint(method, pattern)
}

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
