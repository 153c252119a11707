package operator

import (
	"encoding/hex"
	"net/netip"
	"regexp"
	"strings"

	"github.com/weir-limits/weir/limiter"
)

// The kinds of a subject that are no identity of a caller.
const (
	kindGlobal   = "global"
	kindEndpoint = "endpoint"
	kindCustom   = "custom"
)

const wantSubject = "want user:ID, apikey:ID, ip:ADDRESS, claim:NAME=VALUE, some of them joined by |, endpoint:METHOD:PATTERN, custom:KIND=VALUE or global"

// maxSubject is the longest text of a subject that is read.
const maxSubject = 4096

// parse reads a subject as explain prints it, where %XX stands for a byte; what needs no
// escape may be written without. The caller has the identities that it is made of.
func (o *Operator) parse(text string) (limiter.Subject, limiter.Caller, error) {
	if len(text) > maxSubject {
		return limiter.Subject{}, limiter.Caller{}, mistake("subject: has %d bytes, at most %d are read", len(text), maxSubject)
	}
	kind, rest, _ := strings.Cut(text, ":")
	switch kind {
	case kindGlobal:
		if text == kindGlobal {
			return limiter.Global(), limiter.Caller{}, nil
		}
	case kindEndpoint:
		if method, pattern, ok := strings.Cut(rest, ":"); ok && pattern != "" {
			return limiter.Endpoint(unescape(method), unescape(pattern)), limiter.Caller{}, nil
		}
	case kindCustom:
		if name, value, ok := strings.Cut(rest, "="); ok && name != "" {
			return limiter.Custom(unescape(name), unescape(value)), limiter.Caller{}, nil
		}
	default:
		return o.identities(text)
	}
	return limiter.Subject{}, limiter.Caller{}, mistake("subject: got %q, %s", text, wantSubject)
}

// identities reads a subject of one identity or several.
func (o *Operator) identities(text string) (subject limiter.Subject, caller limiter.Caller, err error) {
	caller.Claims = map[string]string{}
	for i, part := range strings.Split(text, "|") {
		kind, value, _ := strings.Cut(part, ":")
		if strings.HasPrefix(value, "~") {
			return subject, caller, mistake("subject: %q is the hash of a long name, from which nothing can be told: want the name itself", part)
		}
		one, ok := limiter.Subject{}, value != ""
		switch {
		case !ok:
		case kind == "user":
			caller.User = unescape(value)
			one = limiter.User(caller.User)
		case kind == "apikey":
			caller.APIKey = unescape(value)
			one = limiter.APIKey(caller.APIKey)
		case kind == "ip":
			caller.IP, ok = o.address(value)
			one = limiter.IP(caller.IP)
		case kind == "claim":
			var name string
			name, value, ok = strings.Cut(value, "=")
			name, value = unescape(name), unescape(value)
			caller.Claims[name] = value
			one = limiter.Claim(name, value)
		default:
			ok = false
		}
		if !ok {
			return subject, caller, mistake("subject: got %q, %s", part, wantSubject)
		}
		if i > 0 {
			one = subject.And(one)
		}
		subject = one
	}
	return subject, caller, nil
}

// address reads an address, or a network that counts as one caller.
func (o *Operator) address(text string) (netip.Prefix, bool) {
	if text == "unknown" {
		return netip.Prefix{}, true
	}
	if addr, err := netip.ParseAddr(text); err == nil {
		return o.prefix(addr), true
	}
	prefix, err := netip.ParsePrefix(text)
	return prefix.Masked(), err == nil
}

var escaped = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

// unescape reads what limiter.Subject escapes; a % that begins no escape is itself.
func unescape(text string) string {
	return escaped.ReplaceAllStringFunc(text, func(s string) string {
		b, _ := hex.DecodeString(s[1:]) // which the expression has checked
		return string(b)
	})
}
