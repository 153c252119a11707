package rules

import (
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
)

// overrides are the limits that single callers have instead of their tier's.
type overrides struct {
	rates  map[who]map[string]algo.Rate // by name of the limit
	limits map[own]*limiter.Limit
}

// own is what stands in place of a limit.
type own struct {
	base *limiter.Limit
	rate algo.Rate
}

// who is one identity: a user, an API key's record, an address or a claim's value.
type who struct{ kind, value string }

// of returns the limit that holds for caller in place of l. Where l counts by several
// identities, an override of the user, key or address goes before one of a claim.
func (o *overrides) of(c *class, caller *caller.Caller, l *limiter.Limit) *limiter.Limit {
	if len(o.rates) == 0 {
		return l
	}
	for _, part := range slices.Backward(c.parts) {
		if rate, ok := o.rates[whoIs(part, caller)][l.Name]; ok {
			return o.limits[own{l, rate}]
		}
	}
	return l
}

// whoIs returns the identity by which a part of a per counts caller.
func whoIs(part string, caller *caller.Caller) who {
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

// Bounds of overrides.
const (
	maxOverrides = 10_000
	maxOwn       = 50_000 // limits that they make
)

// spreadFields are what an override leaves as the limit has it.
var spreadFields = []string{"lease", "shards", "sync_ms", "cells"}

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
			if ok && !p.mistaken(before) {
				p.noteShallow(m.node.path, rate)
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
			var prefix netip.Prefix
			if prefix, ok = address(value); !ok {
				p.problems.add(m.node.path, "got %s, want an IPv4 address, or an IPv6 network such as 2001:db8:1::/64", m.node)
			}
			w.value = prefix.String()
		}
	}
	if w.kind == "" && o.node.kind == isObject {
		p.problems.add(o.node.path, "is for nobody, want a member user, apikey, ip or claim:<name>")
	}
	return w, ok
}

// address reads an address as callers have it: IPv4 by itself, also where it is written
// as IPv6, and IPv6 as a network.
func address(s string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(s); err == nil && a.Unmap().Is4() {
		return netip.PrefixFrom(a.Unmap(), 32), true
	}
	prefix, err := netip.ParsePrefix(s)
	a := prefix.Addr()
	return prefix.Masked(), err == nil && (prefix.IsSingleIP() || a.Is6()) && !a.Is4In6()
}

// applyOverrides makes the limits of single callers: the same limit with other numbers,
// so that a caller who gets or loses an override keeps what it has used. Callers with the
// same numbers share them. whole says that all limits of the document are known.
func (p *parser) applyOverrides(whole bool) {
	p.rules.overrides = overrides{map[who]map[string]algo.Rate{}, map[own]*limiter.Limit{}}
	done := map[numbers]bool{}
	for _, o := range p.overrides {
		n := numbers{o.who.kind, o.name, o.rate}
		if !done[n] && !p.applyOverride(o, whole) {
			continue
		}
		done[n] = true
		rates := p.rules.overrides.rates[o.who]
		if rates == nil {
			rates = map[string]algo.Rate{}
			p.rules.overrides.rates[o.who] = rates
		}
		if _, twice := rates[o.name]; twice {
			p.problems.add(o.path, "stands twice for %s %s", o.who.kind, strconv.Quote(shorten(o.who.value)))
		}
		rates[o.name] = o.rate
	}
}

// numbers are what overrides of several callers can have in common.
type numbers struct {
	kind, name string
	rate       algo.Rate
}

// applyOverride makes what an override puts in place of each limit of its name, and
// reports whether there is any and all fit.
func (p *parser) applyOverride(o override, whole bool) bool {
	found := false
	for _, base := range p.named[o.name] {
		if !p.rules.classes[base.made.class].countsBy(o.who.kind) {
			continue
		}
		found = true
		key := own{base.made.Limit, o.rate}
		if p.rules.overrides.limits[key] != nil {
			continue
		}
		if len(p.rules.overrides.limits) == maxOwn {
			p.problems.add(o.path, "is one too many: overrides make at most %d limits, one of each that has the name", maxOwn)
			return false
		}
		l := p.instead(o, base)
		if l == nil {
			return false
		}
		p.rules.overrides.limits[key] = l
	}
	if !found && whole {
		p.problems.add(o.path, "no limit of this name counts by %s", o.who.kind)
	}
	return found
}

// instead makes a limit with the numbers of an override; nil if they do not fit.
func (p *parser) instead(o override, base *identified) *limiter.Limit {
	l := *base.made.Limit
	l.Rate = o.rate
	switch {
	case base.spread == limiter.Spread{}:
		l.Spread = p.spreads(o.path, base.spread, o.rate, l.Global)
	case l.Spread.Lease > 0 && o.rate.Algorithm == algo.SlidingLog:
		l.Spread.Lease = 0
	default:
		l.Spread.Lease = min(l.Spread.Lease, capacity(o.rate))
	}
	made, err := limiter.NewLimit(l)
	field, ok := errors.AsType[*algo.FieldError](err)
	switch {
	case ok && slices.Contains(spreadFields, field.Field):
		p.problems.add(o.path, "does not go with %s: got %v, want %s", join(base.made.path, field.Field), field.Got, field.Want)
		return nil
	case ok && field.Field == processesField:
		p.problems.add(o.path, "does not go with %s: got %v, want %s", join(p.rules.rules[base.rule].path, processesField), field.Got, field.Want)
		return nil
	case err != nil:
		p.unmade(o.path, err)
		return nil
	}
	if most := min(made.MaxCost(), made.MaxLocalCost()); base.cost > most {
		p.problems.add(o.path, "allows at most %d at once, less than %s (%d)", most, base.costPath, base.cost)
		return nil
	}
	return made
}

// capacity returns how many requests a rate ever admits at once, before it is known to be
// valid.
func capacity(r algo.Rate) int64 {
	if r.Burst > 0 {
		return r.Burst
	}
	return r.Requests
}
