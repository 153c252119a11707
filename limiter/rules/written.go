package rules

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// These constants bound the work of MostItems.
const (
	maxShapes = 2000 // paths that it compares
	maxTries  = 4000 // spellings that it reads
	partners  = 4    // the paths with most items, which it combines with each other one

	maxHeaders = 256 // combinations of values of header fields for one path
)

// written is an item that a request writes.
type written struct {
	limiter.Subject
	shards int
}

// MostItems returns the largest number of items that one request was found to write, and the path of such a request. No
// request writes more than bound. It tries paths that as many rules as possible match, and spellings of them that back ends
// read as several paths: a path is also read before a #, and behind an authority such as //a%2Fb.
func (r *Rules) MostItems() (most int, example string, bound int) {
	tries := 0
	bound = r.boundOfAny()
	try := func(text string) {
		tries++
		paths, ok := r.spelling.readings(nil, EncodedPath(text))
		matched := r.index.match(nil, paths...)
		if ok && r.atMost(matched) > most {
			if n := r.itemsOf(text, matched); n > most {
				most, example = n, text
			}
		}
	}
	paths := r.shapes()
	for i, path := range paths {
		try(path)
		for _, other := range append(slices.Clone(paths[:min(i, partners)]), path) {
			if tries > maxTries || most == bound || r.bound(path)+r.bound(other) <= most {
				break
			}
			for _, text := range []string{other, "//" + strings.ReplaceAll(path[1:], "/", "%2F") + "#" + other,
				"//" + strings.ReplaceAll(other[1:], "/", "%2F") + "#" + path} {
				last := strings.LastIndexByte(text, '/')
				for _, end := range []string{text[last:], "/%2F? ", "/%2Fa?", `/%2F\`, "%2F" + text[last+1:]} {
					try(text[:last] + end)
					try(strings.ReplaceAll(text[:last], parameter, "%2F"+parameter) + end)
				}
			}
		}
	}
	return most, example, bound
}

// family identifies the items of a class with all values of parameters of the path.
type family struct {
	name   string
	shards int
	shadow bool
}

// boundOfAny returns a bound of the items that any request writes: as if all rules matched it.
func (r *Rules) boundOfAny() (most int) {
	tiers := map[string]bool{document.OtherTiers: true}
	for i := range r.rules {
		for tier := range r.rules[i].tiers {
			tiers[tier] = tier != document.Global
		}
	}
	for tier, is := range tiers {
		for _, caller := range []string{document.PerUser, document.PerAPIKey, document.PerIP, rejected} {
			if is {
				most = max(most, r.boundOf(tier, caller))
			}
		}
	}
	return most
}

// rejected stands for a caller with a bad credential. Other callers have an identity of a word of per, and all after it.
const rejected = "rejected"

// boundOf is boundOfAny for the callers of a tier with this identity. The values of a path are others for each rule.
func (r *Rules) boundOf(tier, caller string) (sum int) {
	known := map[family]int{}
	for i := range r.rules {
		byPath := map[family]int{}
		for _, limits := range r.rules[i].of(tier) {
			for j := range limits {
				class := &r.classes[limits[j].class]
				name, n := class.boundFor(caller, limits[j].Only)
				at := family{name, limits[j].Spread.Shards, limits[j].Shadow}
				if class.byPath() {
					byPath[at] = n
				} else {
					known[at] = n
				}
			}
		}
		for _, n := range byPath {
			sum += n
		}
	}
	for _, n := range known {
		sum += n
	}
	return sum
}

// boundFor returns the family in which a class counts a caller, and a bound of the items that a rule writes in it; 0 if a limit
// with the field only does not charge the caller.
func (c *class) boundFor(caller, only string) (family string, n int) {
	has := func(word string) bool {
		return slices.ContainsFunc(c.parts, func(p part) bool { return p.word == word })
	}
	at := slices.Index([]string{document.PerUser, document.PerAPIKey, document.PerIP, rejected}, caller)
	switch {
	case at == 3 && !c.byIP, at < 3 && only == document.OnlyBadCredentials, at < 2 && only == document.OnlyUnverified,
		at > 0 && has(document.PerUser), at > 1 && has(document.PerAPIKey):
		return "", 0
	}
	n = 1
	if c.byPath() {
		n = maxValues
	}
	if c.claims {
		n *= maxElements
	}
	return c.families[min(at, len(c.families)-1)], n
}

// shapes returns the paths of the endpoints of rules, and those that several of them match. Those that can write most are
// first.
func (r *Rules) shapes() (paths []string) {
	seen := map[string]bool{}
	var list []pattern
	add := func(p pattern) {
		key := p.example() + strconv.FormatBool(p.below)
		if !seen[key] && len(list) < maxShapes {
			seen[key] = true
			list = append(list, p)
		}
	}
	for i := range r.rules {
		add(r.rules[i].pattern)
	}
	endpoints := slices.Clone(list)
	for i := 0; i < len(list); i++ { //nolint:intrange // the list grows in the loop
		for _, p := range endpoints {
			if both, ok := list[i].and(p); ok {
				add(both)
			}
		}
	}
	bound := map[string]int{}
	for _, p := range list {
		paths = append(paths, p.example())
		bound[p.example()] = r.bound(p.example())
	}
	slices.SortFunc(paths, func(a, b string) int { return cmp.Or(bound[b]-bound[a], strings.Compare(a, b)) })
	return slices.Compact(paths)
}

// and returns the pattern of the paths that p and q match; ok is false if there are none.
func (p pattern) and(q pattern) (both pattern, ok bool) {
	if len(p.segments) < len(q.segments) {
		p, q = q, p
	}
	if len(p.segments) > len(q.segments) && !q.below {
		return both, false
	}
	both.segments, both.below = slices.Clone(p.segments), p.below && q.below
	for i, segment := range q.segments {
		switch {
		case both.segments[i] == parameter:
			both.segments[i] = segment
		case segment != parameter && segment != both.segments[i]:
			return both, false
		}
	}
	return both, true
}

// bound returns a bound of the items that a request with a plain path writes.
func (r *Rules) bound(path string) int { return r.atMost(r.index.match(nil, reading{path: path})) }

// atMost returns a bound of the items that a request writes for these rules.
func (r *Rules) atMost(matched []int) (sum int) {
	for _, i := range matched {
		most, global := 0, 0
		for tier, limits := range r.rules[i].tiers {
			n := 0
			for j := range limits {
				one, class := 1, &r.classes[limits[j].class]
				if class.byPath() {
					one = maxValues
				}
				if class.claims {
					one *= maxElements
				}
				n += one
			}
			if tier == document.Global {
				global = n
			} else {
				most = max(most, n)
			}
		}
		sum += most + global
	}
	return sum
}

// itemsOf returns the largest number of items that a request with a path writes. matched are the rules that match it.
func (r *Rules) itemsOf(path string, matched []int) (most int) {
	methods, tiers := map[string]bool{http.MethodGet: true}, map[string]bool{"": true}
	for _, i := range matched {
		rule := &r.rules[i]
		methods[rule.Method] = true
		for tier := range rule.tiers {
			tiers[tier] = true
		}
	}
	who := caller.Caller{User: "x", APIKey: "x", IP: exampleAddress, Claims: map[string][]string{}}
	for _, name := range r.Claims() {
		who.Claims[name] = strings.Split("1 2 3 4 5 6 7 8", " ")
	}
	for _, header := range r.headersOf(matched) {
		for method := range methods {
			for tier := range tiers {
				for _, one := range []caller.Caller{who, {IP: exampleAddress}} {
					one.Tier = tier
					q := Request{Method: method, Path: EncodedPath(path), Header: header, Caller: one}
					most = max(most, r.itemsWritten(q))
				}
			}
		}
	}
	return most
}

func (r *Rules) itemsWritten(q Request) int {
	items := map[written]bool{}
	for _, c := range r.Select(nil, q).Charges {
		items[written{c.Limit.CountedSubject(c.Subject), c.Limit.Spread.Shards}] = true
	}
	return len(items)
}

// headersOf returns headers for requests that these rules match, up to a bound: each combination of the values that rules name,
// and of fields that are missing.
func (r *Rules) headersOf(matched []int) []http.Header {
	values := map[string][]string{}
	for _, i := range matched {
		for _, f := range r.rules[i].Headers {
			values[f.Name] = append(values[f.Name], f.Values...)
		}
	}
	list := []http.Header{{}}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		for _, h := range slices.Clone(list) {
			for _, value := range slices.Compact(slices.Sorted(slices.Values(values[name]))) {
				if len(list) < maxHeaders {
					with := h.Clone()
					with.Set(name, strings.TrimSuffix(value, "*"))
					list = append(list, with)
				}
			}
		}
	}
	return list
}
