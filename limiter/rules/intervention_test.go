package rules_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
)

const instant = 1_800_000_000

func at(second int64) time.Time { return time.Unix(instant+second, 0) }

// intervene returns rules with interventions. The text of each has no times; it begins at second 0 and ends at second 100.
func intervene(t *testing.T, r *rules.Rules, floor int64, list ...string) *rules.Rules {
	t.Helper()
	for i, one := range list {
		list[i] = fmt.Sprintf(`{%s,"begin":%d,"end":%d}`, one, instant, instant+100)
	}
	v, err := rules.ParseInterventions(fmt.Appendf(nil, `{"version":%d,"floor":%d,"list":[%s]}`, instant, floor, strings.Join(list, ",")))
	if err != nil {
		t.Fatal(err)
	}
	return r.With(v)
}

// A block refuses its caller until its end, also at an exempt endpoint. A bad credential proves no user and no key.
func TestRules_Select_blocked(t *testing.T) {
	base := load(t, "testdata/good/exempt.json")
	r := intervene(t, base, 0, `"kind":"user","value":"bob"`, `"kind":"apikey","value":"k1"`, `"kind":"ip","value":"203.0.113.9"`,
		`"kind":"ip","value":"2001:db8:0:1::/64"`, `"kind":"ip","value":"198.51.100.0/24"`, `"kind":"ip","value":"2001:db8:0:2::"`)
	ip := func(prefix string) caller.Caller { return caller.Caller{IP: netip.MustParsePrefix(prefix)} }
	for _, c := range []struct {
		name    string
		caller  caller.Caller
		second  int64
		blocked string
	}{
		{"user", caller.Caller{User: "bob", IP: address}, 0, "user:bob"},
		{"user at the end", caller.Caller{User: "bob"}, 100, ""},
		{"user just before", caller.Caller{User: "bob"}, 99, "user:bob"},
		{"other user", alice, 0, ""},
		{"key with a user", caller.Caller{User: "alice", APIKey: "k1"}, 1, "apikey:k1"},
		{"a user with the name of a key", caller.Caller{User: "k1"}, 1, ""},
		{"address", ip("203.0.113.9/32"), 1, "ip:203.0.113.9"},
		{"address of a user", caller.Caller{User: "alice", IP: netip.MustParsePrefix("203.0.113.9/32")}, 1, "ip:203.0.113.9"},
		{"network", ip("2001:db8:0:1::/64"), 1, "ip:2001:db8:0:1::/64"},
		{"address in a network", ip("198.51.100.9/32"), 1, "ip:198.51.100.0/24"},
		{"one address of a network", ip("2001:db8:0:2::/64"), 1, ""},
		{"no address", caller.Caller{}, 1, ""},
		{"bad credential", caller.Caller{User: "bob", APIKey: "k1", Rejected: true}, 1, ""},
		{"bad credential from an address", caller.Caller{IP: netip.MustParsePrefix("203.0.113.9/32"), Rejected: true}, 1, "ip:203.0.113.9"},
	} {
		for _, path := range []string{"/", "/health", "/a/../b"} {
			q := rules.Request{Method: "GET", Path: rules.EncodedPath(path), Caller: c.caller, At: at(c.second)}
			s, e := r.Select(nil, q), r.Explain(q)
			got := ""
			if s.Blocked != nil {
				got = s.Blocked.Subject()
			}
			if got != c.blocked || e.Blocked != s.Blocked || got != "" && (len(s.Charges) > 0 || s.Malformed || s.Exemption != nil) ||
				(len(r.Interventions().Of(c.caller, at(c.second))) > 0) != (got != "") {
				t.Errorf("%s, %s: got %q, %+v, want %q", c.name, path, got, s, c.blocked)
			}
		}
	}
	two, err := rules.ParseInterventions(fmt.Appendf(nil, `{"version":%d,"list":[{"kind":"ip","value":"192.0.2.1","begin":%[1]d,"end":%[2]d},`+
		`{"kind":"ip","value":"192.0.2.1/32","begin":%[1]d,"end":%[3]d,"note":"later"}]}`, instant, instant+50, instant+90))
	if err != nil {
		t.Fatal(err)
	}
	for second, want := range map[int64]string{49: "later", 50: "later", 89: "later", 90: ""} {
		q, note := rules.Request{Method: "GET", Caller: ip("192.0.2.1/32"), At: at(second)}, ""
		if block := base.With(two).Select(nil, q).Blocked; block != nil {
			note = block.Note
		}
		if note != want {
			t.Errorf("an address and its network, second %d: got the block %q, want %q", second, note, want)
		}
	}
	if base.Select(nil, rules.Request{Method: "GET", Caller: caller.Caller{User: "bob"}, At: at(1)}).Blocked != nil {
		t.Error("With changed the rules")
	}
}

// A raised limit has its number until its end, and keeps the window and the burst of the limit that it replaces. The version
// of each limit grows with every change, and does not fall when an ended entry is removed under a floor.
func TestRules_Select_raised(t *testing.T) {
	r := parse(t, `{"rules":[{"endpoint":"/a","limits":{"*":[
		{"name":"b","requests":100,"window":"1m","algorithm":"token_bucket","burst":20,"per":["client"]},
		{"name":"w","requests":10,"window":"1h","per":["client"]},{"name":"i","requests":10,"window":"1h","per":["ip"]},
		{"name":"log","requests":10,"window":"1h","algorithm":"sliding_log","per":["user"]}]}}],
		"overrides":[{"user":"alice","limits":{"w":{"requests":50,"window":"1d"}}}]}`)
	record, err := caller.NewLimits(map[string]caller.Rate{"w": {Requests: 70, Window: time.Minute}}, "", 5)
	if err != nil {
		t.Fatal(err)
	}
	user := []string{`"kind":"user","value":"alice","limit":"b","requests":600`, `"kind":"user","value":"alice","limit":"w","requests":9`,
		`"kind":"user","value":"alice","limit":"log","requests":11`, `"kind":"user","value":"alice","limit":"none","requests":1`,
		`"kind":"apikey","value":"k1","limit":"w","requests":5`}
	key := caller.Caller{APIKey: "k1", IP: address, Limits: record}
	for _, c := range []struct {
		name   string
		caller caller.Caller
		second int64
		floor  int64
		want   string
	}{
		{"before", alice, -1, 0, "bucket/600ms/20 1, sliding/24h0m0s/50 1, log/1h0m0s/10 1, log/1h0m0s/10 1"},
		{"raised", alice, 0, 0, "bucket/100ms/20 +1, log/24h0m0s/9 +1, log/1h0m0s/10 1, log/1h0m0s/10 +1"},
		{"ended", alice, 100, 0, "bucket/600ms/20 +101, sliding/24h0m0s/50 +101, log/1h0m0s/10 1, log/1h0m0s/10 +101"},
		{"below a floor", alice, 100, instant + 50, "bucket/600ms/20 51, sliding/24h0m0s/50 51, log/1h0m0s/10 1, log/1h0m0s/10 51"},
		{"key with a record", key, 0, 0, "bucket/600ms/20 +6, log/1m0s/5 +6, log/1h0m0s/10 1"},
		{"key with a record, ended", key, 100, 0, "bucket/600ms/20 +106, sliding/1m0s/70 +106, log/1h0m0s/10 1"},
		{"anonymous", anonymous, 0, 0, "bucket/600ms/20 1, log/1h0m0s/10 1, log/1h0m0s/10 1"},
	} {
		raised := intervene(t, r, min(c.floor, instant), append([]string{}, user...)...)
		if c.floor > 0 {
			v := *raised.Interventions()
			v.Version, v.Floor = c.floor, c.floor
			text, _ := json.Marshal(v)
			moved, err := rules.ParseInterventions(text)
			if err != nil {
				t.Fatal(err)
			}
			raised = r.With(moved)
		}
		charges := raised.Select(nil, rules.Request{Method: "GET", Path: rules.EncodedPath("/a"), Caller: c.caller, At: at(c.second)}).Charges
		var got []string
		for _, charge := range charges {
			version := fmt.Sprint(charge.Limit.Version)
			if charge.Limit.Version >= instant {
				version = fmt.Sprintf("+%d", charge.Limit.Version-instant)
			}
			got = append(got, charge.Limit.Fingerprint()+" "+version)
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: got\n%s, want\n%s", c.name, strings.Join(got, ", "), c.want)
		}
		again := raised.Select(nil, rules.Request{Method: "GET", Path: rules.EncodedPath("/a"), Caller: c.caller, At: at(c.second)}).Charges
		for i := range again {
			if again[i].Limit != charges[i].Limit {
				t.Errorf("%s: the second request gets another limit %s", c.name, again[i].Limit.Name)
			}
		}
	}
	if floored, err := rules.Parse([]byte(`{"rules":[{"endpoint":"*","limits":{"*":{"requests":1,"window":"1m"}}}]}`),
		rules.Options{Version: 7, Floor: 30}); err != nil || floored.Limits()[0].Charge.Limit.Version != 37 || floored.Version() != 7 {
		t.Errorf("floor: got %v, want limits of version 37 in a document of version 7", err)
	}
	for one, want := range map[rules.Intervention]string{
		{Kind: "user", Limit: "b", Requests: 600}:        "",
		{Kind: "user", Limit: "log", Requests: 11}:       "limit log: got 11 requests, want at most 10: a sliding_log must fit its item",
		{Kind: "user", Limit: "i", Requests: 11}:         `limit i: no limit of this name counts by user, want "b", "log" or "w"`,
		{Kind: "apikey", Limit: "log", Requests: 2}:      `limit log: no limit of this name counts by apikey, want "b" or "w"`,
		{Kind: "ip", Limit: "i", Requests: 2}:            "",
		{Kind: "user", Limit: "b", Requests: 10_000_000}: "",
	} {
		if err := r.CheckIntervention(one); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%+v: got %v, want %q", one, err, want)
		}
	}
}

func TestParseInterventions(t *testing.T) {
	if v, err := rules.ParseInterventions(nil); err != nil || len(v.List) != 0 {
		t.Errorf("no text: got %v, %v, want none", v, err)
	}
	for _, one := range []string{
		`"kind":"user","value":""`, `"kind":"claim:org","value":"x"`, `"kind":"ip","value":"x"`, `"kind":"ip","value":"192.0.2.1/24"`,
		`"kind":"ip","value":"::ffff:192.0.2.1"`, `"kind":"ip","value":"fe80::1%eth0"`, `"kind":"user","value":"a","limit":"B","requests":1`,
		`"kind":"user","value":"a","limit":"b"`, `"kind":"user","value":"a","requests":1`, `"kind":"user","value":"a","extra":1`,
		`"kind":"user","value":"` + strings.Repeat("a", 4097) + `"`, `"kind":"user","value":"a","note":"` + strings.Repeat("a", 257) + `"`,
	} {
		if _, err := rules.ParseInterventions(fmt.Appendf(nil, `{"version":1,"list":[{%s,"begin":1,"end":2}]}`, one)); err == nil {
			t.Errorf("%.80s: got no error", one)
		}
	}
	for _, text := range []string{"x", `{"list":[]}`, `{"version":1,"floor":2,"list":[]}`, `{"version":1,"list":[]} {}`,
		`{"version":1,"list":[{"kind":"user","value":"a","begin":2,"end":1}]}`,
		`{"version":1,"list":[{"kind":"user","value":"a","begin":1,"end":99999999}]}`} {
		if _, err := rules.ParseInterventions([]byte(text)); err == nil {
			t.Errorf("%s: got no error", text)
		}
	}
}

// Put replaces, ends and prunes. It never has more than 2,000 entries, and it raises the floor by what it removes.
func TestInterventions_Put(t *testing.T) {
	v := &rules.Interventions{}
	put := func(second, end int64, one rules.Intervention) error {
		one.End = instant + end
		made, err := v.Put(at(second), one)
		if err == nil {
			v = made
		}
		return err
	}
	bob := rules.Intervention{Kind: "user", Value: "bob"}
	search := rules.Intervention{Kind: "user", Value: "bob", Limit: "search", Requests: 5}
	for _, step := range []struct {
		second, end int64
		one         rules.Intervention
		want        string
	}{
		{0, 10, bob, "0-10"}, {0, 20, search, "0-10 0-20"}, {5, 30, bob, "0-20 5-30"}, {6, 6, bob, "0-20"}, {7, 7, search, "7-7"},
		{8, 9, bob, "7-7 8-9"}, {7, 30, search, "8-9 8-30"},
		{8, 40, search, "8-9 9-40"}, {40, 50, search, "41-50"},
	} {
		if err := put(step.second, step.end, step.one); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, i := range v.List {
			got = append(got, fmt.Sprintf("%d-%d", i.Begin-instant, i.End-instant))
		}
		if strings.Join(got, " ") != step.want {
			t.Errorf("%+v: got %v, want %s", step, got, step.want)
		}
	}
	v.List = append([]rules.Intervention{}, v.List...)
	for i := range rules.MaxInterventions - 1 {
		v.List = append(v.List, rules.Intervention{Kind: "user", Value: fmt.Sprint(i), Limit: "search", Requests: 1, Begin: instant + 100,
			End: instant + 200})
	}
	begun := v.Version
	if err := put(150, 300, bob); err != nil || len(v.List) != rules.MaxInterventions || v.Floor != instant+50 || v.Version <= begun {
		t.Errorf("one of 2,000 has ended: got %d entries, floor %d, %v, want it removed", len(v.List), v.Floor-instant, err)
	}
	v.List = append([]rules.Intervention{}, v.List...)
	for i := range v.List {
		v.List[i].End = instant + 9000
	}
	if err := put(6000, 9000, rules.Intervention{Kind: "user", Value: "more"}); err == nil || !strings.Contains(err.Error(), "at most 2000") {
		t.Errorf("2,001 in force: got %v, want an error", err)
	}
	v.List = nil
	for i := range 508 {
		v.List = append(v.List, rules.Intervention{Kind: "user", Value: fmt.Sprintf("%04000d", i), Begin: instant, End: instant + 9000})
	}
	escaped := rules.Intervention{Kind: "user", Value: strings.Repeat("<", 4000)} // in JSON, each is \u003c
	if err := put(6000, 9000, escaped); err == nil || !strings.Contains(err.Error(), "bytes") {
		t.Errorf("a text of more than 2 MB: got %v, want an error", err)
	}
}

// If a limit counts by two identities, the number of the user precedes that of the address.
func TestRules_Select_raisedTwice(t *testing.T) {
	r := intervene(t, parse(t, `{"rules":[{"endpoint":"/a","limits":{"*":{"name":"both","requests":10,"window":"1h","per":["ip",`+
		`"user"]}}}]}`), 0,
		`"kind":"ip","value":"`+address.Addr().String()+`","limit":"both","requests":7`,
		`"kind":"user","value":"alice","limit":"both","requests":8`)
	for user, want := range map[string]int64{"alice": 8, "bob": 7} {
		q := rules.Request{Method: "GET", Path: rules.EncodedPath("/a"), Caller: caller.Caller{User: user, IP: address}, At: at(1)}
		if got := r.Select(nil, q).Charges[0].Limit.Rate.Requests; got != want {
			t.Errorf("%s: got %d requests, want %d", user, got, want)
		}
	}
}

// Callers without an entry cost no allocation.
func TestRules_Select_interventionAllocations(t *testing.T) {
	r := parse(t, `{"rules":[{"endpoint":"/a","limits":{"*":{"requests":10,"window":"1h"}}}]}`)
	r = intervene(t, r, 0, `"kind":"user","value":"bob"`, `"kind":"user","value":"bob","limit":"a","requests":9`)
	var charges [4]limiter.Charge
	q := rules.Request{Method: "GET", Path: rules.EncodedPath("/a"), Caller: alice, At: at(1)}
	with := testing.AllocsPerRun(100, func() { r.Select(charges[:0], q) })
	none := r.With(nil)
	if without := testing.AllocsPerRun(100, func() { none.Select(charges[:0], q) }); with > without {
		t.Errorf("got %v allocations with interventions for others, want %v as without", with, without)
	}
}
