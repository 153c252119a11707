package rules

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// overrides are the limits that single callers have instead of their tier's.
type overrides map[who]map[*limiter.Limit]*limiter.Limit

// who is one identity: a user, an API key's record, an address or a claim's value.
type who struct{ kind, value string }

// of returns the limit that holds for caller in place of l.
func (o overrides) of(c *class, caller *limiter.Caller, l *limiter.Limit) *limiter.Limit {
	if len(o) == 0 {
		return l
	}
	for _, part := range c.parts {
		if own, ok := o[whoIs(part, caller)][l]; ok {
			return own
		}
	}
	return l
}

// whoIs returns the identity by which a part of a per counts caller.
func whoIs(part string, caller *limiter.Caller) who {
	switch {
	case part == perUser || part == perClient && caller.User != "":
		return who{perUser, caller.User}
	case part == perAPIKey || part == perClient && caller.APIKey != "":
		return who{perAPIKey, caller.APIKey}
	case part == perIP || part == perClient:
		return who{perIP, caller.IP.String()}
	}
	return who{part, caller.Claims[strings.TrimPrefix(part, perClaim)]}
}

// override is one limit of a caller, as the document has it.
type override struct {
	path string
	who  who
	name string
	rate algo.Rate
}

const maxOverrides = 10_000

// readOverrides reads the list of overrides.
func (p *parser) readOverrides(n *node) {
	switch {
	case n == nil:
		return
	case n.kind != isList:
		p.problems.add(n.path, "got %s, want a list", n)
		return
	case len(n.items) > maxOverrides:
		p.problems.add(n.path, "has %d overrides, at most %d are allowed", len(n.items), maxOverrides)
		return
	}
	for _, item := range n.items {
		o := item.object(&p.problems)
		who, ok := p.who(o)
		limits := o.required("limits")
		if note := o.member("note"); note != nil {
			o.text(note)
		}
		o.done()
		if limits == nil {
			continue
		}
		limits.object(&p.problems)
		for _, m := range limits.members {
			before := len(p.problems)
			l := m.node.object(&p.problems)
			rate := p.rate(l)
			if note := l.member("note"); note != nil {
				l.text(note)
			}
			l.done()
			if ok && len(p.problems) == before {
				p.overrides = append(p.overrides, override{m.node.path, who, m.key, rate})
			}
		}
	}
}

// who reads whom an override is for: one member that names an identity.
func (p *parser) who(o *object) (w who, ok bool) {
	for _, m := range o.node.members {
		if m.key != perUser && m.key != perAPIKey && m.key != perIP && !validClaim.MatchString(m.key) {
			continue
		}
		value, isText := o.text(o.member(m.key))
		switch {
		case w.kind != "":
			p.problems.add(m.node.path, "stands beside %s: an override is for one of them", w.kind)
			return w, false
		case isText && value == "":
			p.problems.add(m.node.path, "is empty")
		}
		w, ok = who{m.key, value}, isText && value != ""
		if m.key == perIP && ok {
			prefix, err := address(value)
			if err != nil {
				p.problems.add(m.node.path, "got %s, want an IPv4 address, or an IPv6 network such as 2001:db8:1::/64", m.node)
				ok = false
			}
			w.value = prefix.String()
		}
	}
	if w.kind == "" && o.node.kind == isObject {
		p.problems.add(o.node.path, "is for nobody, want a member user, apikey, ip or claim:<name>")
	}
	return w, ok
}

// address reads an address as callers have it.
func address(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Is4() {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, err
	}
	return prefix.Masked(), nil
}

// applyOverrides makes the limits of single callers: the same limit with other numbers,
// so that a caller who gets or loses an override keeps what it has used.
func (p *parser) applyOverrides() {
	p.rules.overrides = overrides{}
	for _, o := range p.overrides {
		made := p.rules.overrides[o.who]
		if made == nil {
			made = map[*limiter.Limit]*limiter.Limit{}
			p.rules.overrides[o.who] = made
		}
		found := false
		for _, known := range p.known {
			base := known.made
			if base.Name != o.name || !p.rules.classes[base.class].countsBy(o.who.kind) {
				continue
			}
			found = true
			if _, twice := made[base.Limit]; twice {
				p.problems.add(o.path, "stands twice for %s %s", o.who.kind, strconv.Quote(shorten(o.who.value)))
				break
			}
			own := *base.Limit
			own.Rate = o.rate
			own.Spread.Lease = min(own.Spread.Lease, smallest(o.rate))
			l, ok := p.newLimit(o.path, own)
			if !ok {
				break
			}
			made[base.Limit] = l
		}
		if !found && len(p.problems) == 0 {
			p.problems.add(o.path, "no limit of this name counts by %s", o.who.kind)
		}
	}
}

// smallest returns the smaller of what a rate admits in a window and at once.
func smallest(r algo.Rate) int64 {
	if r.Burst > 0 {
		return min(r.Requests, r.Burst)
	}
	return r.Requests
}
