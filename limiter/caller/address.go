package caller

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
)

// Prefix returns the network that counts as one caller. For an IPv4 address it is the address itself,
// even if it is mapped into IPv6 (RFC 4291, 2.5.5.2). For an IPv6 address it is the network with a
// prefix of ipv6Bits, because one customer commonly has a whole network (RFC 6177). Prefix drops the
// zone of an address. For the zero Addr it returns the zero Prefix.
func Prefix(addr netip.Addr, ipv6Bits int) netip.Prefix {
	if !addr.IsValid() {
		return netip.Prefix{}
	}
	addr = addr.Unmap()
	bits := 32
	if addr.Is6() {
		bits = ipv6Bits
	}
	prefix, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}

// ParseAddress parses an address that a host reports, with or without a port, and also in quotes. Examples are
// http.Request.RemoteAddr and the source address of an event. It returns the zero Addr if s is not an
// address.
func ParseAddress(s string) netip.Addr {
	if inner, ok := strings.CutPrefix(s, `"`); ok && strings.HasSuffix(inner, `"`) {
		s = strings.TrimSuffix(inner, `"`)
	}
	if at := strings.LastIndex(s, ":_"); at >= 0 { // a port that a proxy hides (RFC 7239, 6.3)
		s = s[:at]
	}
	if inner, ok := strings.CutPrefix(s, "["); ok && strings.HasSuffix(inner, "]") {
		s = strings.TrimSuffix(inner, "]")
	}
	if strings.HasPrefix(s, "[") || strings.Count(s, ":") == 1 {
		port, err := netip.ParseAddrPort(s)
		if err != nil {
			return netip.Addr{}
		}
		return port.Addr()
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}
	}
	return addr
}

// LastHop returns the last address of X-Forwarded-For headers. The load balancer added this address;
// the client chose all others. Use LastHop only behind a load balancer that appends addresses.
func LastHop(forwarded []string) netip.Addr {
	if len(forwarded) == 0 {
		return netip.Addr{}
	}
	_, last, _ := CutLast(forwarded[len(forwarded)-1])
	return ParseAddress(last)
}

// Proxies are the networks of the proxies in front of a server. Create them with ParseProxies. Nil trusts no
// proxy. Proxies are read-only, so they are safe for concurrent use.
type Proxies []netip.Prefix

// ParseProxies parses networks such as "10.0.0.0/8", and single addresses. The error names the first text that
// is neither.
func ParseProxies(networks ...string) (Proxies, error) {
	var p Proxies
	for _, text := range networks {
		network, err := netip.ParsePrefix(text)
		if addr, single := netip.ParseAddr(text); single == nil && addr.Zone() == "" {
			network, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil || network.Addr().Is4In6() {
			return nil, fmt.Errorf("trusted proxies: got %q, want a network such as 10.0.0.0/8 or fd00::/8, or an address", text)
		}
		p = append(p, network)
	}
	return p, nil
}

// Client returns the address of the client whose request arrived from the address peer. The addresses of the
// proxies that the request passed are in forwarded, the X-Forwarded-For fields of the request.
//
// Each proxy appends the address from which it got the request, so the last entries are reliable as long as
// trusted proxies wrote them. Client returns the last address that is not of a trusted proxy. If all addresses
// are, it returns the first one. Without a trusted peer the fields prove nothing, and Client returns the peer.
// If a trusted proxy wrote an entry that is no address, such as "unknown", Client returns the address of that
// proxy: its unknown clients count as one.
func (p Proxies) Client(peer netip.Addr, forwarded []string) netip.Addr {
	return p.client(peer, forwarded, CutLast)
}

// ClientForwarded is Client for the Forwarded fields of a request (RFC 7239), whose elements have the addresses in the
// parameter for.
func (p Proxies) ClientForwarded(peer netip.Addr, forwarded []string) netip.Addr {
	return p.client(peer, forwarded, func(list string) (before, node string, more bool) {
		before, element, more := cutQuoted(list, ',')
		if element != "" {
			node = nodeOf(element)
		}
		return before, node, more
	})
}

// nodeOf returns the value of the parameter for in an element of Forwarded. An element without one, or with several, has an
// unknown node.
func nodeOf(element string) string {
	node := ""
	for more := true; more; {
		var pair string
		element, pair, more = cutQuoted(element, ';')
		name, value, _ := strings.Cut(pair, "=")
		if strings.EqualFold(strings.TrimSpace(name), "for") {
			if node != "" {
				return "unknown"
			}
			node = strings.TrimSpace(value)
		}
	}
	return cmp.Or(node, "unknown")
}

// cutQuoted cuts the last element from a list whose elements can have quoted parts. It reads from the end: what a client
// sent before the elements of the proxies, such as a single quote, then has no effect on these.
func cutQuoted(list string, separator byte) (before, last string, more bool) {
	quoted := false
	for i := len(list) - 1; i >= 0; i-- {
		switch {
		case list[i] == '"' && (len(list[:i])-len(strings.TrimRight(list[:i], `\`)))%2 == 0:
			quoted = !quoted
		case list[i] == separator && !quoted:
			return list[:i], strings.TrimSpace(list[i+1:]), true
		}
	}
	return "", strings.TrimSpace(list), false
}

func (p Proxies) client(peer netip.Addr, forwarded []string, cut func(string) (before, last string, more bool)) netip.Addr {
	client, rest, more := peer, strings.Join(forwarded, ","), len(forwarded) > 0
	for more && p.Contain(client) {
		var entry string
		rest, entry, more = cut(rest)
		if entry == "" { // a list may have empty elements (RFC 9110, 5.6.1)
			continue
		}
		addr := ParseAddress(entry)
		if !addr.IsValid() {
			break
		}
		client = addr
	}
	return client
}

// Contain reports whether addr is the address of a trusted proxy.
func (p Proxies) Contain(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("") // a Prefix contains no address with a zone
	for _, network := range p {
		if network.Contains(addr) {
			return true
		}
	}
	return false
}

// CutLast cuts the last element from a comma-separated list. more reports whether before has further elements.
func CutLast(list string) (before, last string, more bool) {
	comma := strings.LastIndexByte(list, ',')
	return list[:max(comma, 0)], strings.TrimSpace(list[comma+1:]), comma >= 0
}
