package caller_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/storetest"
)

func TestProxies_Client(t *testing.T) {
	trusted, err := caller.ParseProxies("10.0.0.0/8", "192.0.2.1", "fd00::/8", "fe80::/10", "::1")
	if err != nil {
		t.Fatal(err)
	}
	const proxy, client, other = "10.0.0.1", "203.0.113.7", "198.51.100.9"
	many := slices.Repeat([]string{"10.9.9.9"}, 10_000)
	for _, c := range []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"no field", proxy, nil, proxy},
		{"empty field", proxy, []string{""}, proxy},
		{"one proxy", proxy, []string{client}, client},
		{"spoofed by a client without a proxy", client, []string{other}, client},
		{"spoofed through a proxy", proxy, []string{other + ", " + client}, client},
		{"spoofed as a proxy", proxy, []string{other + ", 10.0.0.2, " + client + ", 10.0.0.3"}, client},
		{"two proxies", proxy, []string{client + ", 10.0.0.2"}, client},
		{"two proxies, one field each", proxy, []string{other, client, "10.0.0.2"}, client},
		{"all trusted", proxy, []string{"10.0.0.4, 10.0.0.3", "10.0.0.2"}, "10.0.0.4"},
		{"empty elements", proxy, []string{client + ", ,", " "}, client},
		{"unknown client", proxy, []string{"unknown"}, proxy},
		{"unknown client of the second proxy", proxy, []string{client + ", unknown, 10.0.0.2"}, "10.0.0.2"},
		{"garbage before the client", proxy, []string{"\x00%, <script>, " + client}, client},
		{"port", proxy, []string{client + ":4711, 10.0.0.2:80"}, client},
		{"IPv6 with a port", proxy, []string{"[2001:db8::1]:80"}, "2001:db8::1"},
		{"IPv6 loopback with a port, trusted", proxy, []string{client + ", [::1]:80"}, client},
		{"IPv6 in brackets", proxy, []string{"[2001:db8::1]"}, "2001:db8::1"},
		{"in quotes", proxy, []string{other + `, "` + client + `:4711"`}, client},
		{"IPv6 in quotes", proxy, []string{`"[2001:db8::1]:80"`}, "2001:db8::1"},
		{"a single quote", proxy, []string{`"` + client}, proxy},
		{"zone", "fe80::1%eth0", []string{"fe80::2%eth1, " + client + ",fe80::3%eth0"}, client},
		{"mapped proxies", "::ffff:10.0.0.1", []string{client + ", ::ffff:10.0.0.2"}, client},
		{"single address", "192.0.2.1", []string{client}, client},
		{"neighbour of a single address", "192.0.2.2", []string{client}, "192.0.2.2"},
		{"unix socket", "@", []string{client}, "invalid IP"},
		{"10,000 entries of a client", proxy, []string{strings.Join(many, ", "), client}, client},
		{"10,000 trusted entries", proxy, []string{client, strings.Join(many, ",")}, client},
		{"10,000 fields", proxy, slices.Concat([]string{client}, many), client},
	} {
		if got := trusted.Client(caller.ParseAddress(c.peer), c.forwarded).String(); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
	if got := caller.Proxies(nil).Client(netip.MustParseAddr(proxy), []string{client}).String(); got != proxy {
		t.Errorf("no trusted proxy: got %s, want the peer %s", got, proxy)
	}
}

func TestProxies_ClientForwarded(t *testing.T) {
	trusted := storetest.Must(caller.ParseProxies("10.0.0.0/8"))
	const proxy, client, other = "10.0.0.1", "203.0.113.7", "for=198.51.100.9"
	for _, c := range []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"no field", proxy, nil, proxy},
		{"empty", proxy, []string{""}, proxy},
		{"VPC link", proxy, []string{"by=10.0.0.2;for=" + client + ";host=api.example;proto=https"}, client},
		{"spoofed without a proxy", client, []string{other}, client},
		{"spoofed through a proxy", proxy, []string{other + ", for=" + client}, client},
		{"two proxies, a field each", proxy, []string{other + ",For = " + client, "proto=http;FOR=10.0.0.2"}, client},
		{"IPv6 with a port", proxy, []string{`for="[2001:db8::1]:4711"`}, "2001:db8::1"},
		{"a quote of the client", proxy, []string{`for="198.51.100.9, for=` + client}, client},
		{"a quote of the client before a quoted node", proxy, []string{`for="198.51.100.9, for="` + client + `:1"`}, client},
		{"a quoted host", proxy, []string{`for=` + client + `;host="x,for=198.51.100.9"`}, client},
		{"an escaped quote in a host", proxy, []string{`for=` + client + `;host="a\",for=198.51.100.9;x=\""`}, client},
		{"a separator in a host", proxy, []string{`for=` + client + `;host="x;for=198.51.100.9"`}, client},
		{"two nodes", proxy, []string{"for=" + client + ";" + other}, proxy},
		{"no node", proxy, []string{other + ", proto=https"}, proxy},
		{"unknown", proxy, []string{other + ", for=unknown"}, proxy},
		{"obfuscated", proxy, []string{`for="_hidden"`}, proxy},
		{"obfuscated port", proxy, []string{`for="` + client + `:_x"`}, client},
		{"IPv6 with an obfuscated port", proxy, []string{`for="[2001:db8::1]:_x"`}, "2001:db8::1"},
		{"empty elements", proxy, []string{"for=" + client + ", ,"}, client},
		{"10,000 elements", proxy, []string{"for=" + client, strings.Repeat("for=10.0.0.9, ", 10_000)}, client},
	} {
		if got := trusted.ClientForwarded(caller.ParseAddress(c.peer), c.forwarded).String(); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

func TestParseProxies(t *testing.T) {
	for _, text := range []string{"", "10.0.0.0/33", "10.0.0.0/", "10", "localhost", "::ffff:10.0.0.0/104", "::ffff:10.0.0.1", "fe80::1%eth0",
		"10.0.0.0/8, 10.0.0.1"} {
		_, err := caller.ParseProxies("10.0.0.0/8", text)
		if err == nil || !strings.Contains(err.Error(), `got "`+text+`", want a network`) {
			t.Errorf("%q: got error %v, want one that names the text", text, err)
		}
	}
}

// FuzzProxies shows that a client behind a proxy cannot choose its address, whatever it sends.
func FuzzProxies(f *testing.F) {
	f.Add("203.0.113.7, 10.0.0.2")
	f.Add("unknown")
	f.Add("[::1]:80,")
	trusted, err := caller.ParseProxies("10.0.0.0/8")
	if err != nil {
		f.Fatal(err)
	}
	proxy, client := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("203.0.113.7")
	f.Fuzz(func(t *testing.T, sent string) {
		for _, forwarded := range [][]string{{sent + ", " + client.String()}, {sent, client.String()}, {sent, client.String() + ", 10.0.0.2"}} {
			if got := trusted.Client(proxy, forwarded); got != client {
				t.Errorf("%q: got %s, want %s", forwarded, got, client)
			}
		}
		if got := trusted.Client(client, []string{sent}); got != client {
			t.Errorf("%q from an untrusted peer: got %s, want %s", sent, got, client)
		}
	})
}
