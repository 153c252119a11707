package rules_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
)

// An override inherits the window, the algorithm and the burst of the limit unless it sets them. The
// inherited burst is at most the requests of the override, so an override that lowers a limit also
// lowers its burst.
func TestParse_overrides_inherit(t *testing.T) {
	limits := map[string]string{
		"bucket":      `"requests":100,"window":"1m","algorithm":"token_bucket","burst":20`,
		"full bucket": `"requests":100,"window":"1m","algorithm":"token_bucket"`,
		"large burst": `"requests":1000,"window":"1m","algorithm":"token_bucket","burst":1000`,
		"leaky":       `"requests":1000,"window":"1m","algorithm":"leaky_bucket","burst":10`,
		"fixed":       `"requests":100,"window":"1h","algorithm":"fixed_window"`,
		"sliding":     `"requests":100,"window":"1h"`,
		"log":         `"requests":100,"window":"1h","algorithm":"sliding_log"`,
		"month":       `"requests":100,"period":"month","anchor":31,"time_zone":"Europe/Berlin"`,
	}
	for _, c := range []struct{ limit, override, want string }{
		{"bucket", `"requests":600`, "bucket/100ms/20"},
		{"bucket", `"requests":600,"burst":50`, "bucket/100ms/50"},
		{"bucket", `"requests":600,"window":"1h"`, "bucket/6s/20"},
		{"bucket", `"requests":600,"algorithm":"sliding_window"`, "sliding/1m0s/600"},
		{"full bucket", `"requests":600`, "bucket/100ms/600"},
		{"large burst", `"requests":5`, "bucket/12s/5"},
		{"large burst", `"requests":1000`, "bucket/60ms/1000"},
		{"large burst", `"requests":2000`, "bucket/30ms/1000"},
		{"large burst", `"requests":5,"burst":40`, "bucket/12s/40"},
		{"bucket", `"requests":20`, "bucket/3s/20"},
		{"bucket", `"requests":19`, "bucket/3.157894737s/19"},
		{"leaky", `"requests":5`, "bucket/12s/5"},
		{"fixed", `"requests":5`, "fixed/1h0m0s/5"},
		{"fixed", `"requests":5,"window":"1m"`, "fixed/1m0s/5"},
		{"sliding", `"requests":5`, "log/1h0m0s/5"}, // a small window stores instants
		{"sliding", `"requests":20`, "sliding/1h0m0s/20"},
		{"sliding", `"requests":60,"algorithm":"token_bucket","burst":7`, "bucket/1m0s/7"},
		{"log", `"requests":5`, "log/1h0m0s/5"},
		{"month", `"requests":5`, "month-31/5/Europe/Berlin"},
		{"month", `"requests":5,"anchor":15`, "month-15/5/Europe/Berlin"},
		{"month", `"requests":5,"time_zone":"Asia/Kolkata"`, "month-31/5/Asia/Kolkata"},
		{"month", `"requests":5,"period":"month"`, "month-31/5/Europe/Berlin"},
		{"month", `"requests":5,"period":"week"`, "week-monday/5/Europe/Berlin"},
		{"month", `"requests":5,"window":"1h"`, "fixed/1h0m0s/5"},
		{"month", `"requests":5,"window":"1h","algorithm":"token_bucket"`, "bucket/12m0s/5"},
		{"bucket", `"requests":5,"period":"day"`, "day/5/UTC"},
		{"sliding", `"requests":5,"period":"month","anchor":2`, "month-2/5/UTC"},
	} {
		r := parse(t, `{"rules":[{"endpoint":"/a","limits":{"*":{`+limits[c.limit]+`}}}],"overrides":[{"user":"alice","limits":{"a":{`+c.override+
			`}}}]}`)
		if got := r.Charges(nil, "GET", rules.EncodedPath("/a"), alice)[0].Limit.Fingerprint(); got != c.want {
			t.Errorf("%s with %s: got %s, want %s", c.limit, c.override, got, c.want)
		}
	}
}

// An override of a network applies to each address in the network. If several networks contain an
// address, the longest prefix applies. Each address has its own count.
func TestParse_overrides_networks(t *testing.T) {
	r := parse(t, `{"rules":[{"endpoint":"*","limits":{"*":[
		{"name":"s","requests":9,"window":"1m","per":["ip"]},{"name":"other","requests":8,"window":"1m","per":["ip"]}]}}],"overrides":[
		{"ip":"10.0.0.0/8","limits":{"s":{"requests":1}}},
		{"ip":"10.1.0.0/16","limits":{"s":{"requests":2},"other":{"requests":7}}},
		{"ip":"10.1.2.3","limits":{"s":{"requests":3}}},
		{"ip":"2001:db8::/32","limits":{"s":{"requests":4}}},
		{"ip":"2001:db8:1::/64","limits":{"s":{"requests":5}}},
		{"ip":"2001:db8:2::1/128","limits":{"s":{"requests":6}}}]}`)
	for address, want := range map[string]string{
		"10.9.9.9/32": "1 8", "10.1.9.9/32": "2 7", "10.1.2.3/32": "3 7", "11.0.0.1/32": "9 8",
		"2001:db8:9::/64": "4 8", "2001:db8:1::/64": "5 8", "2001:db8:2::/64": "4 8", "2001:db9::/64": "9 8", "::/64": "9 8",
	} {
		charges := r.Charges(nil, "GET", rules.EncodedPath("/"), caller.Caller{IP: netip.MustParsePrefix(address)})
		if got := fmt.Sprint(charges[0].Limit.Rate.Requests, charges[1].Limit.Rate.Requests); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
	a := r.Charges(nil, "GET", rules.EncodedPath("/"), caller.Caller{IP: netip.MustParsePrefix("10.9.9.9/32")})[0].Subject
	b := r.Charges(nil, "GET", rules.EncodedPath("/"), caller.Caller{IP: netip.MustParsePrefix("10.9.9.8/32")})[0].Subject
	if a == b {
		t.Errorf("subjects of two addresses: got %s for both, want different subjects", a)
	}
	if charges := r.Charges(nil, "GET", rules.EncodedPath("/"), caller.Caller{}); len(charges) > 0 && charges[0].Limit.Rate.Requests != 9 {
		t.Errorf("without an address: got %d requests, want 9", charges[0].Limit.Rate.Requests)
	}
}

// For each kind of identity, Parse reports overrides of the same unknown limit once.
func TestParse_overrides_unknown_once(t *testing.T) {
	_, err := rules.Parse([]byte(`{"rules":[{"endpoint":"/a","limits":{"*":{"requests":1,"window":"1s"}}}],"overrides":[
		{"user":"u","limits":{"b":{"requests":1}}},
		{"user":"v","limits":{"b":{"requests":2},"c":{"requests":2}}},
		{"apikey":"k","limits":{"b":{"requests":1}}}]}`), rules.Options{})
	want := `line 2: overrides[0].limits.b: no limit of this name counts by user, want "a"
line 3: overrides[1].limits.c: no limit of this name counts by user, want "a"
line 4: overrides[2].limits.b: no limit of this name counts by apikey, want "a"`
	if err == nil || err.Error() != want {
		t.Errorf("error: got %v, want %s", err, want)
	}
}
