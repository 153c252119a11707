package origin

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/caller"
)

// Believed is the source of the client's address. The zero value is the host.
type Believed struct {
	name string // value of contract.VariableViewerAddress; "" for the host
	hops int    // entries of X-Forwarded-For, counted from the right; 0 for the other fields
}

// ParseBelieved parses a value of contract.VariableViewerAddress.
func ParseBelieved(text string) (Believed, error) {
	digits, hops := strings.CutPrefix(text, contract.ViewerHops)
	switch {
	case text == "" || text == contract.ViewerSource:
		return Believed{}, nil
	case text == contract.ViewerCloudFront || text == contract.ViewerWeir:
		return Believed{name: text}, nil
	case hops:
		if n, err := strconv.Atoi(digits); err == nil && n >= 1 && n <= contract.MaxViewerHops && strconv.Itoa(n) == digits {
			return Believed{text, n}, nil
		}
	}
	return Believed{}, fmt.Errorf("got %.40q, want %s, %s, %s, or %sN with N from 1 to %d", text,
		contract.ViewerSource, contract.ViewerCloudFront, contract.ViewerWeir, contract.ViewerHops, contract.MaxViewerHops)
}

// String returns the value of contract.VariableViewerAddress.
func (b Believed) String() string {
	if b.name == "" {
		return contract.ViewerSource
	}
	return b.name
}

// Fields returns the header fields that b reads, in canonical form and sorted.
func (b Believed) Fields() []string {
	switch {
	case b.name == "":
		return nil
	case b.hops > 0:
		return []string{contract.OriginSecretField, forwardedField}
	case b.name == contract.ViewerWeir:
		return []string{contract.OriginSecretField, contract.ViewerAddressField}
	}
	return []string{cloudFrontField, contract.OriginSecretField}
}

const forwardedField = "X-Forwarded-For"

var cloudFrontField = http.CanonicalHeaderKey(contract.CloudFrontAddressField)

// maxAddress is the length of the longest address with a port that a field can have.
const maxAddress = len("0000:0000:0000:0000:0000:ffff:255.255.255.255:65535")

// address returns the address in the field that b reads. peer is the address of the connection, and appended reports that
// the host has appended it to X-Forwarded-For. If there is no address, problem is the reason.
func (b Believed) address(h http.Header, peer netip.Addr, appended bool) (addr netip.Addr, problem string) {
	if b.hops > 0 {
		return hop(h[forwardedField], b.hops, peer, appended)
	}
	field, parse := cloudFrontField, withPort
	if b.name == contract.ViewerWeir {
		field, parse = contract.ViewerAddressField, plain
	}
	values := h[field]
	switch {
	case len(values) == 0:
		return addr, field + ": missing"
	case len(values) > 1:
		return addr, field + ": repeated"
	case len(values[0]) > maxAddress:
		return addr, field + ": no address"
	}
	if addr = parse(values[0]); !addr.IsValid() {
		return addr, field + ": no address"
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
	return plain(text[:colon])
}

// plain parses an address without a zone: a zone has a meaning only on one machine.
func plain(text string) netip.Addr {
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
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
	first := true
	for _, rest := range slices.Backward(forwarded) {
		for more := true; more; {
			var entry string
			if rest, entry, more = caller.CutLast(rest); entry == "" { // a list may have empty elements (RFC 9110, 5.6.1)
				continue
			}
			if appended && first && caller.ParseAddress(entry).Unmap() != peer.Unmap() {
				return addr, forwardedField + ": the last entry is not the source address"
			}
			first = false
			if n--; n > 0 {
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
	}
	return addr, forwardedField + ": too few entries"
}

// maxEntry is the length of the longest entry of X-Forwarded-For that can be an address: with brackets and a zone.
const maxEntry = maxAddress + 40
