package caller

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
	"unicode"

	"github.com/weir-limits/weir/limiter"
)

// Caller is the sender of a request. It contains only verified identities. The zero value is an
// anonymous caller from an unknown address.
type Caller struct {
	User   string       // subject of the verified token; "" without a token
	APIKey string       // ID of the API key's record; "" without a key
	IP     netip.Prefix // address; an IPv6 address is shortened to its network
	Tier   string       // name of the caller's tier; "" means the default tier of the rules
	// Tiers are the tiers of a verified claim that is a list. The first tier of the rules that it contains takes
	// precedence over Tier.
	Tiers []string
	// Claims are the values of verified claims, as in Claims.Values; read-only, because requests share them.
	Claims map[string][]string

	// Limits are the limits in the API key's record. They replace the numbers of limits that count by API key. nil
	// means that the record sets none, or that there is no key.
	Limits *Limits

	// ForeignKey reports that the request has an API key that is not Weir's, such as a key of a usage plan of API
	// Gateway. The key identifies nobody here.
	ForeignKey bool

	// IPFrom describes the source of IP: the host, or a distribution or proxy in front. It is "" if only the host can be
	// the source. IPNotFound reports that the host is the source because the request does not prove to be from the
	// distribution or proxy, or lacks the address.
	IPFrom     string
	IPNotFound bool

	// Rejected reports whether a credential was bad. The rules then charge only limits that count by
	// address. No other field comes from a bad credential.
	Rejected bool
	// Unverified reports that the credential of a rejected caller could not be verified, so it is not known to be bad.
	// It then counts on no limit of bad credentials.
	Unverified bool
}

// Subject returns the subject of the user. Without a user it returns the subject of the API key. Without
// both it returns the subject of the address.
func (c Caller) Subject() limiter.Subject {
	switch {
	case c.User != "":
		return limiter.User(c.User)
	case c.APIKey != "":
		return limiter.APIKey(c.APIKey)
	}
	return limiter.IP(c.IP)
}

// These are the errors of identification. Compare with errors.Is.
var (
	// ErrInvalidCredential reports that a credential is malformed, unknown, expired or forged.
	ErrInvalidCredential = errors.New("invalid credential")
	// ErrSuspended reports that the record of an API key is suspended. It wraps ErrInvalidCredential.
	ErrSuspended = fmt.Errorf("%w: suspended", ErrInvalidCredential)
	// ErrMissingCredential reports that a request lacks a required credential.
	ErrMissingCredential = errors.New("no credential")
	// ErrUnverified reports that a credential could not be verified, because the signing keys or the
	// API key records could not be read. It is not the caller's fault.
	ErrUnverified = errors.New("credential could not be verified")
)

// Credentials are the unverified credentials and the address of a request.
type Credentials struct {
	Authorization string     // value of the Authorization header
	APIKey        string     // value of the header of API keys, usually x-api-key
	Address       netip.Addr // address of the client; the zero Addr if the host does not know it
	// Verified are what the host of the request has verified, in place of a token. nil means nothing.
	Verified *Claims
}

// Options are the options of an Identifier. Without Tokens, the Identifier ignores tokens, and without
// APIKeys, API keys. The API can then use these header fields itself.
type Options struct {
	Tokens  *Verifier
	APIKeys KeyRecords
	// RefuseForeignKeys rejects an API key that is not Weir's. Otherwise such a key is ignored: the API or API
	// Gateway may use it.
	RefuseForeignKeys bool
	// RequireCredential rejects anonymous callers.
	RequireCredential bool
	// IPv6Bits is the prefix length of the network that counts as one IPv6 caller. 0 means 64.
	IPv6Bits int
}

// DefaultIPv6Bits is the prefix length of the network that counts as one IPv6 caller, unless Options set another.
const DefaultIPv6Bits = 64

// Identifier identifies callers. It is safe for concurrent use.
type Identifier struct{ o Options }

// New returns an Identifier.
func New(o Options) *Identifier {
	if o.IPv6Bits <= 0 || o.IPv6Bits > 128 {
		o.IPv6Bits = DefaultIPv6Bits
	}
	return &Identifier{o}
}

// Identifies reports whether i identifies callers by tokens and by API keys. A nil Identifier does neither.
func (i *Identifier) Identifies() (tokens, apiKeys bool) {
	if i == nil {
		return false, false
	}
	return i.o.Tokens != nil, i.o.APIKeys != nil
}

// Warm reads the secrets of RemoteRecords, so that the connection to the table is open before the first
// key arrives. With other records Warm does nothing. If the read fails, Warm returns the error of the
// table, and later requests retry the read.
func (i *Identifier) Warm(ctx context.Context, now time.Time) error {
	if r, ok := i.o.APIKeys.(*RemoteRecords); ok {
		return r.Warm(ctx, now)
	}
	return nil
}

// Caller returns the sender of a request that arrived at the time now. An unknown API key without the prefix of
// NewAPIKey is not Weir's, and is ignored unless Options.RefuseForeignKeys is true. If the caller has both a user and an API
// key, the tier of the token takes precedence over the tier of the key.
//
// The error wraps ErrInvalidCredential, ErrMissingCredential or ErrUnverified. With an error, Caller
// has only an address and Rejected is true. Charge this caller, then answer 503 for ErrUnverified and
// 401 for the other errors.
func (i *Identifier) Caller(ctx context.Context, now time.Time, c Credentials) (Caller, error) {
	rejected := Caller{IP: Prefix(c.Address, i.o.IPv6Bits), Rejected: true}
	caller := Caller{IP: rejected.IP}
	known := false
	if i.o.APIKeys != nil && c.APIKey != "" {
		record, err := i.o.APIKeys.Lookup(ctx, now, c.APIKey)
		switch {
		case errors.Is(err, ErrInvalidCredential) && isForeign(c.APIKey) && !i.o.RefuseForeignKeys:
			rejected.ForeignKey, caller.ForeignKey = true, true
		case err != nil:
			rejected.Unverified = errors.Is(err, ErrUnverified)
			return rejected, err
		case record.Suspended:
			return rejected, ErrSuspended
		default:
			caller.APIKey, caller.Tier, caller.Limits, known = record.ID, record.Tier, record.Limits, true
		}
	}
	token, ok := "", false
	if i.o.Tokens != nil {
		token, ok = bearer(c.Authorization)
	}
	if ok {
		claims, err := i.o.Tokens.Verify(ctx, now, token)
		if err != nil {
			rejected.Unverified = errors.Is(err, ErrUnverified)
			return rejected, err
		}
		caller.add(claims)
	} else if c.Verified != nil {
		caller.add(*c.Verified)
	}
	known = known || caller.User != ""
	if !known && i.o.RequireCredential {
		return rejected, ErrMissingCredential
	}
	return caller, nil
}

// add adds verified claims.
func (c *Caller) add(verified Claims) {
	c.User, c.Claims = verified.User, verified.Values
	switch len(verified.Tiers) {
	case 0:
	case 1:
		c.Tier = verified.Tiers[0]
	default:
		c.Tiers = verified.Tiers
	}
}

// bearer returns the token of an Authorization header with the bearer scheme (RFC 6750), or of one that is only a token.
// ok is false for other schemes, which are ignored. For a malformed header, such as one of several with a token, the token is
// "" and ok is true. A back end can accept such a header, so the request must not count as anonymous.
func bearer(authorization string) (token string, ok bool) {
	if first, others, several := strings.Cut(authorization, ","); several {
		_, ok = bearer(strings.TrimSpace(first))
		for !ok && several {
			first, others, several = strings.Cut(others, ",")
			_, ok = bearer(strings.TrimSpace(first))
		}
		return "", ok
	}
	if IsBare(authorization) {
		return authorization, true
	}
	isName := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}
	rest := strings.TrimLeftFunc(authorization, func(r rune) bool { return !isName(r) })
	end := strings.IndexFunc(rest, func(r rune) bool { return !isName(r) })
	if end < 0 {
		end = len(rest)
	}
	if !strings.EqualFold(rest[:end], "bearer") {
		return "", false
	}
	if rest != authorization || !strings.HasPrefix(rest[end:], " ") {
		return "", true
	}
	return strings.Trim(rest[end:], " "), true
}

// IsBare reports whether an Authorization header is only a signed token, without a scheme: its first part is a JSON
// object in base64url.
func IsBare(authorization string) bool {
	isToken := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'
	}
	return strings.HasPrefix(authorization, "ey") && strings.Count(authorization, ".") == 2 && !strings.ContainsFunc(authorization,
		func(r rune) bool { return !isToken(r) })
}
