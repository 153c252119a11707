package document

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/meter"
)

// These are the words of the field per.
const (
	PerClient   = "client"
	PerUser     = "user"
	PerAPIKey   = "apikey"
	PerIP       = "ip"
	PerEndpoint = "endpoint"
	PerGlobal   = "global"
	PerMethod   = "method"
	PerClaim    = "claim:"  // followed by the name of a claim
	PerPath     = "path:"   // followed by the name of a parameter of the endpoint
	PerHeader   = "header:" // followed by the name of a header field, in lower case
)

// Limit is one limit of a rule.
type Limit struct {
	// Limit has the fields that the limit itself sets: Name, Rate, Spread, Count, Notify and Mark. Name is "" if it
	// comes from the endpoint. At most one field of Spread is set. If regions share the limit, Rate.Regions is
	// anyRegion.
	limiter.Limit

	Path    string   // such as "rules[2].limits.free"
	Tier    string   // a tier, OtherTiers or Global
	Reserve int64    // the most that a request charges until its answer is known; 0 if Count does not reserve
	Per     []string // sorted
	// From is where the bodies of a request and its answer have its cost or its reserve; nil if they have neither.
	From *meter.Source
	// AcrossTiers reports whether a caller that changes tier keeps its count of the limit.
	AcrossTiers bool
	UpTo        []Part // what each tier may use of the limit; nil without the field up_to
	Only        string // selects the charged requests: OnlyUnverified, OnlyBadCredentials or "" for all
}

// These are the values of the field "only" of a limit.
const (
	OnlyUnverified     = "unverified"      // requests without a verified user or API key
	OnlyBadCredentials = "bad_credentials" // requests whose credential was rejected
)

// anyRegion stands for the region of a process that is not known here. The state of a limit in a region is at most as
// large as in this one.
var anyRegion = algo.Regions{Of: algo.MaxRegions, Place: algo.MaxRegions - 1, List: algo.MaxList}

// These are the values of the field "regions"; the first is the default.
const (
	regionsEach   = "each"
	regionsShared = "shared"
)

const modeMark = "mark"

var regions = []string{regionsEach, regionsShared}

var limitModes = []string{"enforce", modeMark}

// readLimit reads a limit. ok is false if the limit has mistakes.
func (d *Document) readLimit(n *node, tier string, inList bool) (l Limit, ok bool) {
	before := d.Mistakes()
	o := n.object(&d.report)
	l = Limit{Path: n.path(), Tier: tier}
	most := int64(algo.MaxRequests)
	if of := o.get("count"); of != nil && slices.Contains(amounts, of.value) {
		most = algo.MaxAmount
	}
	l.Rate = d.readRate(o, most)
	l.Spread = readSpread(o)
	l.Count, l.Reserve, l.From = d.readCount(o)
	concurrent := l.Count.Of == limiter.CountConcurrent
	switch {
	case n.kind != isObject || o.has("window_seconds") || o.has("window") || o.has("period"):
	case concurrent:
		d.report.add(Join(n.path(), "window"), `required with "count": %q: the longest time that a request holds its slot, such as "5m"`,
			string(l.Count.Of))
	default:
		d.report.add(Join(n.path(), "window_seconds"), `required, or "window": "1m", or "period": "month"`)
	}
	if concurrent && l.Rate.Algorithm == "" {
		l.Rate.Algorithm = algo.Concurrent // NewLimit refuses any other
	}
	l.Rate.Algorithm = l.Rate.WithDefaults().Algorithm
	l.Notify = d.readNotify(o)
	l.Per = d.readPer(o, tier)
	l.Name = d.readName(o, inList, l.Per == nil || slices.Contains(l.Per, PerEndpoint))
	l.Only = d.readOnly(o, l.Per)
	l.AcrossTiers = d.readAcrossTiers(o, &l)
	l.UpTo = d.readUpTo(o, &l)
	l.Rate.Regions = d.readRegions(o)
	l.Mark = o.choose(o.member("mode"), limitModes,
		map[string]string{modeShadow: `; "shadow" is a mode of a rule or of the document`}) == modeMark
	o.text(o.member("note"))
	o.done()
	return l, d.Mistakes() == before && !d.report.more
}

var algorithms = texts(algo.Algorithms())

// amounts are the counts that can have more than algo.MaxRequests.
var amounts = []any{string(limiter.CountCost), string(limiter.CountBytes)}

// readRate reads the numbers of a limit of at most this number of requests. A missing field is zero.
func (d *Document) readRate(o *object, most int64) (r algo.Rate) {
	r.Requests, _ = o.whole(o.required("requests"), most)
	r.Window = d.readWindow(o)
	r.Calendar = d.readCalendar(o)
	r.Algorithm = algo.Algorithm(o.choice("algorithm", algorithms))
	r.Burst, _ = o.whole(o.member("burst"), algo.MaxRequests)
	return r
}

// readSpread reads the fields that reduce the writes to the item of a limit: lease, shards and
// sync_ms.
func readSpread(o *object) (s limiter.Spread) {
	s.Lease, _ = o.whole(o.member("lease"), algo.MaxRequests)
	shards, _ := o.whole(o.member("shards"), limiter.MaxShards)
	ms, _ := o.whole(o.member("sync_ms"), int64(algo.MaxWindow/time.Millisecond))
	s.Shards, s.Sync = int(shards), time.Duration(ms)*time.Millisecond
	return s
}

// readWindow reads window_seconds or window. It returns 0 if the limit has neither.
func (d *Document) readWindow(o *object) time.Duration {
	seconds, text := o.member("window_seconds"), o.member("window")
	switch {
	case seconds != nil && text != nil:
		d.report.at(text, "got window and window_seconds, want one of them")
	case seconds != nil:
		i, _ := o.whole(seconds, int64(algo.MaxWindow/time.Second))
		return time.Duration(i) * time.Second
	case text != nil:
		s, ok := text.value.(string)
		if !ok {
			d.report.at(text, `got %s, want a string such as "60s"; window_seconds is a number`, text)
			return 0
		}
		window, err := duration(s)
		if err != nil || window < limiter.MinWindow || window > algo.MaxWindow || window%time.Second != 0 {
			d.report.at(text, `got %s, want whole seconds from "1s" to "100d", such as "90s", "15m", "1h" or "30d"; for calendar months and `+
				`years, use "period": "month" or "year"`, text)
		}
		return window
	}
	return 0
}

var periods = texts(algo.Periods())

func texts[T ~string](names []T) (list []string) {
	for _, name := range names {
		list = append(list, string(name))
	}
	return list
}

// readCalendar reads period, time_zone and anchor. An override may set one of these fields without the
// others.
func (d *Document) readCalendar(o *object) (c algo.Calendar) {
	c.Period = algo.Period(o.choice("period", periods))
	c.Zone, _ = o.text(o.member("time_zone"))
	anchor := o.member("anchor")
	if anchor == nil {
		return c
	}
	if text, ok := anchor.value.(string); ok && slices.Contains(algo.Weekdays(), text) {
		c.Anchor = text
	} else if number, ok := anchor.value.(json.Number); ok {
		if i, ok := integer(number.String()); ok {
			c.Anchor = strconv.FormatInt(i, 10)
		}
	}
	if c.Anchor == "" {
		d.report.at(anchor, "got %s, want a weekday from monday to sunday, or a day of the month from 1 to 31 without quotes", anchor)
	}
	return c
}

// duration parses like time.ParseDuration, and accepts days.
func duration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 7)
		return time.Duration(n) * 24 * time.Hour, err
	}
	if strings.HasPrefix(s, "+") {
		return 0, errors.New("a sign")
	}
	return time.ParseDuration(s)
}

// readName reads the name of a limit. It returns "" if the limit has no name.
func (d *Document) readName(o *object, inList, byEndpoint bool) string {
	n := o.member("name")
	switch {
	case n != nil:
		return o.name(n)
	case o.node.kind != isObject:
	case inList:
		d.report.add(Join(o.node.path(), "name"), "required: every limit in a list has a name")
	case !byEndpoint:
		d.report.add(Join(o.node.path(), "name"), "required: all rules that use the name of a limit share its count, unless the limit counts "+
			"by endpoint")
	}
	return ""
}

var (
	perWords    = []string{PerClient, PerUser, PerAPIKey, PerIP, PerMethod, PerEndpoint, PerGlobal}
	wantedWords = "want client, user, apikey, ip, claim:<name>, path:<parameter>, method, header:<name>, endpoint or global"
)

// readPer reads the words of per, sorted. It returns nil if they have mistakes.
func (d *Document) readPer(o *object, tier string) []string {
	n := o.member("per")
	switch {
	case n == nil && tier == Global:
		return []string{PerEndpoint, PerGlobal}
	case n == nil:
		return []string{PerClient, PerEndpoint}
	}
	before := d.Mistakes()
	var per []string
	for _, item := range d.values(n, 1, maxPer, "words", `["client", "endpoint"]`) {
		word, ok := o.text(item)
		if strings.HasPrefix(word, PerHeader) {
			word = strings.ToLower(word)
		}
		switch {
		case !ok:
		case slices.Contains(per, word):
			d.report.at(item, "got %s twice", item)
		case strings.HasPrefix(word, PerPath) && !isParameter(word) && isParameter(withoutBraces(word)):
			d.report.at(item, "got %s, want %s without braces", item, withoutBraces(word))
		case isReserved(word):
			d.report.at(item, "got %s, want another field: %s", item, reservedFields)
		case !slices.Contains(perWords, word) && !isClaim(word) && !isParameter(word) && !isHeader(word):
			d.report.at(item, "got %s, %s%s", item, wantedWords, DidYouMean(word, perWords))
		default:
			per = append(per, word)
		}
	}
	slices.Sort(per)
	d.checkPer(n.path(), per)
	if d.Mistakes() > before || d.report.more {
		return nil
	}
	return per
}

// withoutBraces removes the braces of a parameter such as path:{id}.
func withoutBraces(word string) string { return strings.Trim(strings.Replace(word, "{", "", 1), "}") }

// checkPer reports words of per that a limit cannot combine.
func (d *Document) checkPer(path string, per []string) {
	for _, word := range per {
		switch {
		case slices.Contains(per, PerGlobal) && word != PerGlobal && word != PerEndpoint:
			d.report.add(path, "got global and %s, want global alone or with endpoint; global counts all callers together", word)
			return
		case slices.Contains(per, PerClient) && (word == PerUser || word == PerAPIKey || word == PerIP):
			d.report.add(path, "got client and %s, want one of them: client means the user, or the API key if there is no user, or the address "+
				"if there is neither", word)
			return
		case strings.HasPrefix(word, PerHeader) && !slices.ContainsFunc(per, IsIdentity):
			d.report.add(path, "got %s without an identity, want also client, user, apikey, ip or claim:<name>: a client chooses its header fields",
				word)
			return
		}
	}
}

// readOnly reads the field only. The requests that this field selects have no identity except their
// address.
func (d *Document) readOnly(o *object, per []string) string {
	only := o.choice("only", []string{OnlyUnverified, OnlyBadCredentials})
	if only != "" && !slices.Equal(per, []string{PerIP}) && !slices.Equal(per, []string{PerEndpoint, PerIP}) {
		d.report.add(Join(o.node.path(), "only"), `needs "per": ["ip"] or ["ip", "endpoint"]: without a verified identity a request has only `+
			`its address`)
	}
	return only
}

// readAcrossTiers reads the field across_tiers of the limit l, whose other fields are known.
func (d *Document) readAcrossTiers(o *object, l *Limit) bool {
	path, hasTier := Join(o.node.path(), "across_tiers"), func(word string) bool { return IsIdentity(word) && word != PerIP }
	if !o.truth("across_tiers") {
		return false
	}
	if l.Per != nil && !slices.ContainsFunc(l.Per, hasTier) {
		d.report.add(path, `got true, want a "per" with client, user, apikey or claim:<name>: callers of several tiers share the other counts`)
	}
	return true
}

// readRegions reads the field regions of a limit. Without the field, that of the document applies.
func (d *Document) readRegions(o *object) algo.Regions {
	chosen := o.choice("regions", regions)
	if chosen == regionsShared || d.shared && !o.has("regions") {
		return anyRegion
	}
	return algo.Regions{}
}

func (d *Document) readNotify(o *object) (p limiter.Percentages) {
	n := o.member("notify")
	if n == nil {
		return p
	}
	for i, item := range d.values(n, 1, len(p), "percentages", "[80, 100]") {
		percent, _ := o.whole(item, limiter.MaxPercent)
		p[i] = int(percent)
	}
	return p
}
