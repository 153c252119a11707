package caller

import (
	"net/netip"
	"strings"
)

// Prefix returns the network that counts as one caller. For IPv4 it is the address itself, also if
// it is mapped into IPv6 (RFC 4291, 2.5.5.2). For IPv6 it is the network of ipv6Bits, because one
// customer commonly has a whole network (RFC 6177). It has no zone. The zero Addr has the zero
// Prefix.
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

// ParseAddress reads an address that a host reports, with or without a port:
// http.Request.RemoteAddr, or the source address of an event. It returns the zero Addr if s is
// no address.
func ParseAddress(s string) netip.Addr {
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

// LastHop returns the last address of X-Forwarded-For headers, which the load balancer added. The
// client chose all others. Use it only behind a load balancer that appends.
func LastHop(forwarded []string) netip.Addr {
	if len(forwarded) == 0 {
		return netip.Addr{}
	}
	last := forwarded[len(forwarded)-1]
	return ParseAddress(strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:]))
}
