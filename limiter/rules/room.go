package rules

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weir-limits/weir/limiter"
)

// Room describes items of the store that have room for at most two more limits.
type Room struct {
	Items  string `json:"items"` // kinds of subject, such as "user, apikey, ip" or "user endpoint GET /a"
	Tier   string `json:"tier"`  // tier of the callers; "*" is any tier that no rule names. A limit by ip counts for all tiers
	Shadow bool   `json:"shadow,omitempty"`
	Limits int    `json:"limits"` // the largest number of limits that such an item contains now
	Most   int    `json:"most"`   // the number of limits that fit, if the added ones have the size of the largest
	// Restarts is true if a limit beyond Most restarts counts: limits by endpoint move to items of their own. Parse
	// rejects the document if the limits do not fit then either, and always if Restarts is false.
	Restarts bool `json:"restarts"`
}

// littleRoom is the largest number of limits for which an item with a Room has room.
const littleRoom = 2

// Rooms returns the items with little room, the fullest first. It also returns the counts that restart if a rule adds
// more limits than fit an item with Restarts, in the form of the function Restarts.
func (r *Rules) Rooms() (rooms []Room, restarts []string) {
	c := &compiler{rules: r, named: map[namedTier]bool{}}
	for l := range r.limits() {
		c.add(l.spec)
		if of := &r.classes[l.class]; l.byEndpoint() && !of.global {
			restarts = append(restarts, l.Path+" ("+l.Name+")")
		}
	}
	items := map[Room][]string{}
	limits, order := c.items()
	for _, it := range order {
		if _, room := c.room(limits[it]); room > littleRoom { // the union of all tiers has the least room
			continue
		}
		movable := !r.split && !r.classes[limits[it][0].class].global
		for tier, met := range c.byTier(limits[it]) {
			if n, room := c.room(met); room <= littleRoom {
				key := Room{Tier: tier, Shadow: it.shadow, Limits: n, Most: n + room, Restarts: movable}
				if items[key] == nil {
					rooms = append(rooms, key)
				}
				items[key] = append(items[key], it.family)
			}
		}
	}
	for i := range rooms {
		rooms[i].Items = strings.Join(items[rooms[i]], ", ")
	}
	slices.SortStableFunc(rooms, func(a, b Room) int { return cmp.Compare(a.Most-a.Limits, b.Most-b.Limits) })
	if !slices.ContainsFunc(rooms, func(r Room) bool { return r.Restarts }) {
		restarts = nil
	}
	return rooms, restarts
}

// room returns the number of limits, and how many more limits of the largest size fit their item, at most
// littleRoom+1. Each further tier of a limit with across_tiers counts as a limit.
func (c *compiler) room(limits []*spec) (n, room int) {
	var all, largest size
	for s := range distinct(limits) {
		one, _ := c.size(s)
		n += 1 + len(s.Tiers)
		if s.Spread.Shards == 0 {
			all = all.with(one)
		}
		largest.fixed, largest.instants = max(largest.fixed, one.fixed), max(largest.instants, one.instants)
	}
	for room <= littleRoom && n+room < limiter.MaxCharges {
		all = all.with(largest)
		if excess, _ := c.rules.options.Items.Misfit(all.fixed, all.instants); excess > 0 {
			break
		}
		room++
	}
	return n, room
}
