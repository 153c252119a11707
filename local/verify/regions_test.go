package verify_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/clients"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/dynamostore/memtable"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/command/commandtest"
	"github.com/weir-limits/weir/local/gateway"
	"github.com/weir-limits/weir/local/gateway/template/templatetest"
	"github.com/weir-limits/weir/local/verify"
)

// inRegion returns the REST API of a region. tables has the counters of each region.
func inRegion(t *testing.T, rules, region string, tables map[string]*memtable.Locked, now func() time.Time) string {
	t.Helper()
	variables := map[string]string{
		"TABLE": "counters", "NAMESPACE": "test", "RULES_FILE": rules, "WEIR_LOCAL": "true", "DYNAMODB_ENDPOINT": "http://127.0.0.1:1",
		"REGIONS": "us-east-1,eu-central-1", "AWS_REGION": region, "API_KEY_HEADER": contract.NoAPIKeys, "STORE_TIMEOUT": "900ms", // a busy machine is slow
	}
	c := storetest.Must(clients.Load(func(name string) (string, bool) { value, ok := variables[name]; return value, ok }))
	var own limiter.Store
	var others []limiter.Shares
	for _, name := range c.Regions {
		store := storetest.Must(dynamostore.New(tables[name], dynamostore.Options{Table: c.Table, Namespace: c.Namespace}))
		shares, _ := limiter.SharesOf(store)
		if name == region {
			own, shares = store, nil
		}
		others = append(others, shares)
	}
	e := storetest.Must(c.Environment(t.Context(), own, boot.Options{Logger: slog.New(slog.DiscardHandler), Clock: now, Regions: others}))
	parsed, handlers := templatetest.Parse(t, "../../infra/golden/regions.template.json"), map[string]lambda.Handler{}
	for _, f := range parsed.Functions() {
		handlers[f.ID] = lambdahttp.NewHandler(e, sample.New(e))
		if f.Environment["WEIR_FUNCTION"] == "authorizer" {
			handlers[f.ID] = lambdahttp.NewAuthorizer(e)
		}
	}
	g := storetest.Must(gateway.New(parsed, gateway.Options{Functions: handlers, Logger: slog.New(slog.DiscardHandler), Clock: now}))
	server := httptest.NewServer(g.APIs()[0])
	t.Cleanup(server.Close)
	return server.URL
}

// twoRegions returns a deployment in two regions that share a limit of 40 requests. If apart, each region counts alone.
func twoRegions(t *testing.T, algorithm string, apart bool) *verify.Deployment {
	t.Helper()
	clock, file := &commandtest.Clock{}, filepath.Join(t.TempDir(), "rules.json")
	clock.Set(start)
	rules := `{"version":1,"rules":[{"endpoint":"/api/v1/search","method":"GET","limits":{"*":{"requests":40,"window":"1m","algorithm":"` + algorithm + `","regions":"shared"}}}]}`
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	here, there := map[string]*memtable.Locked{"us-east-1": {}, "eu-central-1": {}}, map[string]*memtable.Locked{"us-east-1": {}, "eu-central-1": {}}
	if !apart {
		there = here
	}
	return &verify.Deployment{
		URL: inRegion(t, file, "us-east-1", here, clock.Now), RegionURL: inRegion(t, file, "eu-central-1", there, clock.Now),
		Rules: readRules(t, file), APIKeyHeader: contract.NoAPIKeys, MaxWait: time.Minute, Clock: clock.Now,
		Wait: func(_ context.Context, d time.Duration) error { clock.Wait(d); return nil },
	}
}

// Two regions together admit at most their shared limit. Two that each admit the whole limit fail the row, which no other
// row notices.
func TestRun_regions(t *testing.T) {
	for _, algorithm := range []string{"fixed_window", "sliding_window"} {
		results := verified(t, twoRegions(t, algorithm, false))
		r := resultOf(results, "regions-limit")
		if r.Outcome != verify.Pass || strings.Contains(r.Observed, " 0 of them in the other region") || len(ids(results, verify.Fail)) > 0 {
			t.Errorf("%s: got %+v, want requests admitted by both regions, and no failure\n%s", algorithm, r, failures(results))
		}
		d := twoRegions(t, algorithm, true)
		d.Clients = 1
		if r := outcome(t, d, "regions-limit"); r.Outcome != verify.Fail || !strings.HasPrefix(r.Expected, "at most 4") {
			t.Errorf("%s in two regions that count alone: got %+v, want a failure", algorithm, r)
		}
	}
}

// The row proves nothing, and is skipped, without a shared limit, without a second region, and if the limit is used up.
func TestRun_regions_skipped(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*verify.Deployment)
		reason string
	}{
		"one region":      {func(d *verify.Deployment) { d.RegionURL = "" }, "requires --region-url"},
		"no shared limit": {func(d *verify.Deployment) { d.Rules = readRules(t, "../../functions/rules.json") }, "the rules have no GET endpoint whose smallest limit regions share"},
		"used up":         {func(d *verify.Deployment) { d.MaxWait = 0; verified(t, d) }, verify.UsedUp},
	} {
		d := twoRegions(t, "fixed_window", false)
		c.change(d)
		if r := outcome(t, d, "regions-limit"); r.Outcome != verify.Skip || !strings.HasPrefix(r.Reason, c.reason) {
			t.Errorf("%s: got %+v, want a skip because %q", name, r, c.reason)
		}
	}
}
