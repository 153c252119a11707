// Package loopback recognizes addresses of this machine. The commands send tokens and load to other
// addresses only if a flag allows it.
package loopback

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// URL reports whether the host of a URL is a loopback address or localhost.
func URL(address string) bool {
	u, err := url.Parse(address)
	return err == nil && name(u.Hostname())
}

// Host reports whether a Host header is a loopback address or localhost. A port is optional.
func Host(host string) bool {
	h, _, err := net.SplitHostPort(host)
	if err != nil {
		h = strings.Trim(host, "[]")
	}
	return name(h)
}

// name accepts localhost, because RFC 6761 reserves that name for loopback.
func name(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
