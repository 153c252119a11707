package viewer

import (
	"context"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// Source is the source of the client's address. The zero value is the host.
type Source struct {
	name string // value of contract.VariableAddress; "" for the host
	hops int    // entries of X-Forwarded-For, counted from the right; 0 for CloudFront's field
}

// Parse parses a value of contract.VariableAddress.
func Parse(text string) (Source, error) {
	digits, hops := strings.CutPrefix(text, contract.AddressHops)
	switch {
	case text == "" || text == contract.AddressHost:
		return Source{}, nil
	case text == contract.AddressCloudFront:
		return Source{name: text}, nil
	case hops:
		if n, err := strconv.Atoi(digits); err == nil && n >= 1 && n <= contract.MaxAddressHops && strconv.Itoa(n) == digits {
			return Source{text, n}, nil
		}
	}
	return Source{}, fmt.Errorf("got %.40q, want %s, %s, or %sN with N from 1 to %d", text,
		contract.AddressHost, contract.AddressCloudFront, contract.AddressHops, contract.MaxAddressHops)
}

// String returns the value of contract.VariableAddress.
func (s Source) String() string {
	if s.name == "" {
		return contract.AddressHost
	}
	return s.name
}

// Finder finds the addresses of clients. Create it with New. It is safe for concurrent use.
type Finder struct {
	source  Source
	secrets []string
	logger  *slog.Logger
}

// New returns a Finder. It is nil if the Source is the host. secret is the value of contract.OriginSecretField. before is
// another valid value, for the time in which the secret changes; "" for none.
func New(source Source, secret, before string, logger *slog.Logger) *Finder {
	if source == (Source{}) {
		return nil
	}
	// any client can send a request without the secret
	return &Finder{source, []string{secret, before}, slog.New(telemetry.NewRateLimitedHandler(logger.Handler()))}
}

// Fields returns the header fields that Find reads, in canonical form and sorted.
func (f *Finder) Fields() []string {
	if f.source.hops > 0 {
		return []string{contract.OriginSecretField, forwardedField}
	}
	return []string{cloudFrontField, contract.OriginSecretField}
}

// Address is the address of a client.
type Address struct {
	netip.Addr
	// From is the source of the address: a value of contract.VariableAddress. Problem is the reason why the host is the
	// source although the variable has another value.
	From, Problem string
}

// String returns From, and the Problem if there is one.
func (a Address) String() string {
	if a.Problem == "" {
		return a.From
	}
	return a.From + " (" + a.Problem + ")"
}

// Find returns the address of the client whose request, with the header h, arrived from the address peer. appended reports
// that the host has appended peer to X-Forwarded-For.
func (f *Finder) Find(ctx context.Context, h http.Header, peer netip.Addr, appended bool) Address {
	addr, problem := peer, f.problem(h[contract.OriginSecretField])
	if problem == "" {
		addr, problem = f.source.address(h, peer, appended)
	}
	if problem != "" {
		f.logger.LogAttrs(ctx, slog.LevelWarn, "address of the client not found; the source address counts", slog.String("problem", problem))
		return Address{peer, contract.AddressHost, problem}
	}
	return Address{addr, f.source.String(), ""}
}

// problem returns why the values of the secret's field are not valid; "" if they are.
func (f *Finder) problem(values []string) string {
	switch {
	case len(values) == 0:
		return contract.OriginSecretField + ": missing"
	case len(values) > 1:
		return contract.OriginSecretField + ": repeated"
	}
	valid := 0
	for _, secret := range f.secrets {
		valid |= subtle.ConstantTimeCompare([]byte(values[0]), []byte(secret))
	}
	if valid != 1 || values[0] == "" {
		return contract.OriginSecretField + ": wrong"
	}
	return ""
}

const forwardedField = "X-Forwarded-For"

var cloudFrontField = http.CanonicalHeaderKey(contract.CloudFrontAddressField)

// maxAddress is the length of the longest address with a port that a field can have.
const maxAddress = len("0000:0000:0000:0000:0000:ffff:255.255.255.255:65535")

// address returns the address in the field that s reads. peer is the address of the connection, and appended reports that
// the host has appended it to X-Forwarded-For. If there is no address, problem is the reason.
func (s Source) address(h http.Header, peer netip.Addr, appended bool) (addr netip.Addr, problem string) {
	if s.hops > 0 {
		return hop(h[forwardedField], s.hops, peer, appended)
	}
	switch values := h[cloudFrontField]; {
	case len(values) == 0:
		return addr, cloudFrontField + ": missing"
	case len(values) > 1:
		return addr, cloudFrontField + ": repeated"
	case len(values[0]) <= maxAddress:
		addr = withPort(values[0])
	}
	if !addr.IsValid() {
		return addr, cloudFrontField + ": no address"
	}
	return addr, ""
}

// withPort parses address:port. An IPv6 address has no brackets, so the last colon ends it.
func withPort(text string) netip.Addr {
	colon := strings.LastIndexByte(text, ':')
	if colon < 0 {
		return netip.Addr{}
	}
	if _, err := strconv.ParseUint(text[colon+1:], 10, 16); err != nil {
		return netip.Addr{}
	}
	addr, err := netip.ParseAddr(text[:colon])
	if err != nil || addr.Zone() != "" { // a zone has a meaning only on one machine
		return netip.Addr{}
	}
	return addr
}

// hop returns entry n of X-Forwarded-For, counted from the right after the entry that the host has appended. Entries
// further left can come from the client.
func hop(forwarded []string, n int, peer netip.Addr, appended bool) (addr netip.Addr, problem string) {
	if appended {
		n++
	}
	rest, first := strings.Join(forwarded, ","), true
	for more := true; more; {
		var entry string
		rest, entry, more = caller.CutLast(rest)
		if entry == "" { // a list may have empty elements (RFC 9110, 5.6.1)
			continue
		}
		if appended && first && caller.ParseAddress(entry).Unmap() != peer.Unmap() {
			return addr, forwardedField + ": the last entry is not the source address"
		}
		first = false
		n--
		if n > 0 {
			continue
		}
		if len(entry) <= maxEntry {
			addr = caller.ParseAddress(entry)
		}
		if !addr.IsValid() {
			return addr, forwardedField + ": no address at this hop"
		}
		return addr, ""
	}
	return addr, forwardedField + ": too few entries"
}

// maxEntry is the length of the longest entry of X-Forwarded-For that can be an address: with brackets and a zone.
const maxEntry = maxAddress + 40
