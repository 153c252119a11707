package caller

import (
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

// ParseAddress parses an address that a host reports, with or without a port. Examples are
// http.Request.RemoteAddr and the source address of an event. It returns the zero Addr if s is not an
// address.
func ParseAddress(s string) netip.Addr {
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
