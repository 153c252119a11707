package rules_test

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

// The field "regions" of a limit takes precedence over that of the document, and acts on overrides too. Every process
// counts a caller in the same items, also one that knows no other regions.
func TestParse_regions(t *testing.T) {
	text, third := storetest.Must(os.ReadFile("testdata/good/regions.json")), algo.Regions{Of: 3, Place: 2}
	r := storetest.Must(rules.Parse(text, rules.Options{Version: 1, Items: dynamostore.Items{}, Regions: third}))
	vip := r.Charges(nil, "GET", rules.EncodedPath("/a"), caller.Caller{User: "vip"})[0].Limit
	if vip.Rate.Regions != third || vip.Rate.Requests != 900 {
		t.Errorf("an override: got %+v, want 900 requests in the third region", vip.Rate)
	}
	whole := parse(t, string(text))
	for i, l := range r.Limits() {
		of, alone := l.Charge.Limit, whole.Limits()[i]
		shared := l.Path != "rules[1].limits.*"
		if l.Shared != shared || alone.Shared != shared || (of.Rate.Regions == third) != shared || len(of.Regions()) != map[bool]int{true: 3}[shared] {
			t.Errorf("%s: got shared %t, %+v, want shared %t", l.Path, l.Shared, of.Rate, shared)
		}
		if alone.Charge.Limit.Rate.Regions != (algo.Regions{}) || alone.Charge.Limit.ID != of.ID {
			t.Errorf("%s, one region: got %+v, want the whole limit under the same ID", l.Path, alone.Charge.Limit.Rate)
		}
	}
}

// A process that does not know the regions refuses to admit the whole limit in each.
func TestParse_regionsUnknown(t *testing.T) {
	_, err := rules.Parse([]byte(document(rule("/a", "", `"*":{"requests":10,"window":"1m","regions":"shared"}`))), rules.Options{})
	const want = `line 1: rules[0].limits.*.regions: got shared, want each: this process has no list of the regions, so each region would admit the whole limit`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A document without the field has the same limits in every process.
func TestParse_regionsEach(t *testing.T) {
	text := storetest.Must(os.ReadFile("testdata/good/everything.json"))
	alone, region := storetest.Must(rules.Parse(text, rules.Options{Version: 1})), storetest.Must(rules.Parse(text, rules.Options{Version: 1, Regions: algo.Regions{Of: 3}}))
	for i, l := range region.Limits() {
		if want := alone.Limits()[i].Charge.Limit; !reflect.DeepEqual(l.Charge.Limit, want) {
			t.Errorf("%s: got %+v, want %+v", l.Path, l.Charge.Limit, want)
		}
	}
}

// Three regions admit together what the document says. A distribution in front refuses nobody for a limit that they share.
func TestParse_regionsDecide(t *testing.T) {
	text := []byte(`{"rules":[{"endpoint":"*","limits":{"global":{"requests":300,"window":"1m","per":["ip"],"name":"l","regions":"shared"}}}]}`)
	var stores []limiter.Shares
	for range 3 {
		stores = append(stores, storetest.Must(memstore.New(memstore.Options{})))
	}
	admitted := 0
	for i := range 3 {
		r := storetest.Must(rules.Parse(text, rules.Options{Version: 1, Regions: algo.Regions{Of: 3, Place: i}}))
		if edge := r.Edge().Limits; len(edge) > 0 {
			t.Errorf("limits for a distribution: got %q, want none", edge)
		}
		l := storetest.Must(limiter.New(stores[i].(limiter.Store), limiter.Options{}))
		for range 300 {
			if d, err := l.Take(t.Context(), start, r.Charges(nil, "GET", rules.EncodedPath("/"), alice)); err != nil {
				t.Fatal(err)
			} else if d.Allowed {
				admitted++
			}
		}
	}
	if admitted != 300 {
		t.Errorf("three regions without transfers: got %d admitted, want 300", admitted)
	}
}

// A document for commands is checked for two regions. A note names the number of regions that would refuse a limit or an
// override.
func TestRules_Notes_fewRegions(t *testing.T) {
	r := parse(t, `{"rules":[
		{"endpoint":"/a","local_processes":4,"limits":{"*":{"requests":10,"window":"1m","algorithm":"fixed_window","regions":"shared"}}},
		{"endpoint":"/b","local_processes":4,"limits":{"*":{"requests":40,"window":"1m","algorithm":"fixed_window","regions":"shared"}}}],
		"overrides":[{"user":"u","limits":{"b":{"requests":20}}}]}`)
	want := []string{
		"rules[0].local_processes: checked for two regions; a deployment of 3 or more refuses it: got 4, want 1 to 3 here for rules[0].limits.*",
		"overrides[0].limits.b: checked for two regions; a deployment of 6 or more refuses it: does not fit rules[1].local_processes: got 4, want 1 to 3 here",
	}
	var got []string
	for _, n := range r.Notes() {
		if strings.Contains(n.Message, "deployment") {
			got = append(got, n.Path+": "+n.Message)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for of, valid := range map[int]bool{2: true, 3: false} {
		_, err := rules.Parse([]byte(`{"rules":[{"endpoint":"/a","local_processes":4,"limits":{"*":{"requests":10,"window":"1m","regions":"shared"}}}]}`), rules.Options{Regions: algo.Regions{Of: of}})
		if (err == nil) != valid {
			t.Errorf("%d regions: got error %v, want none: %t", of, err, valid)
		}
	}
}

// A note recommends a fixed window where a sliding one moves share often. A large limit has no lease.
func TestRules_Notes_regions(t *testing.T) {
	for limit, want := range map[string]string{
		`"requests":100,"window":"1m","regions":"shared"`:                            "a fixed_window admits more",
		`"requests":101,"window":"1m","regions":"shared"`:                            "",
		`"requests":100,"window":"1m","algorithm":"fixed_window","regions":"shared"`: "",
		`"requests":100,"window":"1m","regions":"each"`:                              "",
		`"requests":600,"window":"1s","algorithm":"fixed_window","regions":"shared"`: "regions share it without leases",
	} {
		r := storetest.Must(rules.Parse([]byte(document(rule("/a", "", `"*":{`+limit+`}`))), rules.Options{OneRegion: true, LeaseAbove: 500}))
		if got := fmt.Sprint(r.Notes()); !strings.Contains(got, want) || want == "" && strings.Contains(got, "share") {
			t.Errorf("%s: got notes %s, want %q", limit, got, want)
		}
		if s := r.Limits()[0].Charge.Limit.Spread; s != (limiter.Spread{}) {
			t.Errorf("%s: got %+v, want no lease", limit, s)
		}
	}
}
