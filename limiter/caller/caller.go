package caller

import (
	"errors"
	"fmt"
	"net/netip"

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
