package document

import (
	"net/netip"

	"github.com/weir-limits/weir/limiter/algo"
)

// Identity is a user, the id of an API key, the value of a claim, or a network.
type Identity struct {
	Kind    string       // PerUser, PerAPIKey, PerIP, or PerClaim and a name
	Value   string       // as the document spells it
	Network netip.Prefix // set if Kind is PerIP
}

// Key returns i in the form in which equal identities are equal.
func (i Identity) Key() Identity {
	if i.Kind == PerIP {
		i.Value = ""
	}
	return i
}

// Override is a limit of one caller that replaces a limit of a rule.
type Override struct {
	Identity

	Path string // place in the document, such as "overrides[3].limits.search"
	Name string // name of the limits that the override replaces
	// Rate has the fields that the override sets. Algorithm, Window and Burst are zero if the
	// override inherits them from the limit.
	Rate algo.Rate
}

func (d *Document) readOverrides(n *node) {
	for _, item := range d.elements(n, maxOverrides, "overrides") {
		d.readOverride(item)
	}
}

func (d *Document) readOverride(n *node) {
	o := n.object(&d.report)
	caller, ok := d.readCaller(o)
	limits := o.required("limits")
	o.text(o.member("note"))
	o.done()
	if limits == nil {
		return
	}
	limits.object(&d.report)
	for _, m := range limits.members {
		before := d.Mistakes()
		l := m.object(&d.report)
		caller.Path, caller.Name, caller.Rate = m.path(), m.key, d.readRate(l, algo.MaxAmount)
		l.text(l.member("note"))
		l.done()
		if ok && d.Mistakes() == before && !d.report.more {
			d.Overrides = append(d.Overrides, caller)
		}
	}
}

// readCaller reads the caller of an override. Exactly one member of the override must name an identity.
func (d *Document) readCaller(o *object) (c Override, ok bool) {
	for _, m := range o.node.members {
		if m.key != PerUser && m.key != PerAPIKey && m.key != PerIP && !isClaim(m.key) {
			continue
		}
		value, isText := o.text(o.member(m.key))
		switch {
		case c.Kind != "":
			d.report.at(m, "got %s and %s, want one of them", c.Kind, Shorten(m.key))
			return c, false
		case isText && value == "":
			d.report.at(m, "is empty")
		}
		c.Kind, c.Value, ok = m.key, value, isText && value != ""
		if m.key == PerIP && ok {
			c.Network, ok = network(value)
			d.noteHost(m, value, c.Network)
			if !ok {
				d.report.at(m, "got %s, %s", m, wantNetwork)
			}
		}
	}
	if c.Kind == "" && o.node.kind == isObject {
		o.known = append(o.known, PerUser, PerAPIKey, PerIP)
		d.report.at(o.node, "no caller, want a member user, apikey, ip or claim:<name>")
	}
	return c, ok
}

// noteHost adds a note on a network that is written with bits of a host.
func (d *Document) noteHost(n *node, text string, of netip.Prefix) {
	if prefix, err := netip.ParsePrefix(text); err == nil && prefix != prefix.Masked() {
		d.Note(n.path(), "got %s, which is the network %s: the bits of a host have no effect", n, of)
	}
}

const wantNetwork = "want an IPv4 address, or a network such as 192.0.2.0/24 or 2001:db8:1::/64"

// network parses an address or a network. An IPv4 address is a network of one address, even if it is
// written as an IPv6 address.
func network(s string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(s); err == nil && a.Unmap().Is4() {
		return netip.PrefixFrom(a.Unmap(), 32), true
	}
	prefix, err := netip.ParsePrefix(s)
	return prefix.Masked(), err == nil && !prefix.Addr().Is4In6()
}
