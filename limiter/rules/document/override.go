package document

import (
	"net/netip"
	"slices"

	"github.com/weir-limits/weir/limiter/algo"
)

// Identity is a user, the id of an API key, the value of a claim, or a network.
type Identity struct {
	Kind    string       `json:"kind"`  // PerUser, PerAPIKey, PerIP, or PerClaim and a name
	Value   string       `json:"value"` // as the document spells it
	Network netip.Prefix `json:"-"`     // set if Kind is PerIP
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
	for _, item := range d.values(n, 0, maxOverrides, "overrides", `[{"user": "alice", "limits": {}}]`) {
		d.readOverride(item)
	}
}

func (d *Document) readOverride(n *node) {
	o := n.object(&d.report)
	caller, ok := d.readIdentity(o, callerKinds)
	limits := o.required("limits")
	o.text(o.member("note"))
	o.done()
	if limits == nil {
		return
	}
	limits.object(&d.report)
	for _, m := range limits.members() {
		before := d.Mistakes()
		l := m.object(&d.report)
		made := Override{caller, m.path(), m.key, d.readRate(l, algo.MaxAmount)}
		l.text(l.member("note"))
		l.done()
		if ok && d.Mistakes() == before && !d.report.more {
			d.Overrides = append(d.Overrides, made)
		}
	}
}

// anyClaim stands for all claims in the kinds of identities that a member can name.
const anyClaim = PerClaim + "<name>"

// callerKinds are the members that name the caller of an override. An override has exactly one of them.
var callerKinds = []string{PerUser, PerAPIKey, PerIP, anyClaim}

// readIdentity reads the one member that names an identity of these kinds. ok is false if it has mistakes.
func (d *Document) readIdentity(o *object, kinds []string) (of Identity, ok bool) {
	o.known = append(o.known, kinds...)
	for _, m := range o.node.members() {
		if isClaim(m.key) && slices.Contains(kinds, anyClaim) {
			o.known = append(o.known, m.key)
		} else if !slices.Contains(kinds, m.key) {
			continue
		}
		if of.Kind != "" {
			d.report.at(m, "got %s and %s, want one of them", of.Kind, Shorten(m.key))
			return of, false
		}
		of.Kind = m.key
		of.Value, ok = o.text(m)
		switch {
		case ok && of.Value == "":
			d.report.at(m, "is empty")
			ok = false
		case ok && m.key == PerIP:
			of.Network, ok = network(of.Value)
			d.noteHost(m, of.Value, of.Network)
			if !ok {
				d.report.at(m, "got %s, %s", m, wantNetwork)
			}
		}
	}
	if of.Kind == "" && o.node.kind == isObject {
		d.report.at(o.node, "want one of the members %s", AnyOf(kinds))
	}
	return of, ok
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
