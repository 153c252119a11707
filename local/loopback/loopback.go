// Package loopback recognizes addresses of this machine. Without a flag, tokens and load go only to
// such addresses.
package loopback

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// URL reports whether a URL names this machine: an address of its loopback network, or localhost.
func URL(address string) bool {
	u, err := url.Parse(address)
	return err == nil && name(u.Hostname())
}

// Host reports whether a Host header, with a port or without, names this machine.
func Host(host string) bool {
	h, _, err := net.SplitHostPort(host)
	if err != nil {
		h = strings.Trim(host, "[]")
	}
	return name(h)
}

// name accepts localhost because no DNS server answers for it (RFC 6761).
func name(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
