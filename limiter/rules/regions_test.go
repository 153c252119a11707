package rules_test

import (
	"os"
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
		if l.Shared != shared || alone.Shared != shared || (of.Rate.Regions == third) != shared ||
			len(of.Regions()) != map[bool]int{true: 3}[shared] {
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
	const want = `line 1: rules[0].limits.*.regions: got shared, want each: this process has no list of the regions, so each region would ` +
		`admit the whole limit`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Three regions admit together what the document says. A distribution in front refuses nobody for a limit that they share.
func TestParse_regionsDecide(t *testing.T) {
	text := []byte(`{"rules":[{"endpoint":"*","limits":{"global":{"requests":300,"window":"1m","per":["ip"],"name":"l",
		"regions":"shared"}}}]}`)
	var stores []limiter.Shares
	for range 3 {
		stores = append(stores, storetest.Must(memstore.New(memstore.Options{})))
	}
	admitted := 0
	for i := range 3 {
		r := storetest.Must(rules.Parse(text, rules.Options{Version: 1, Regions: algo.Regions{Of: 3, Place: i}}))
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
