package boot_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/dynamostore/memtable"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
)

const sharedRules = `{"version":1,"rules":[{"endpoint":"*","limits":{"*":{"name":"l","requests":300,"window":"100d","algorithm":"fixed_window","regions":"shared"}}}]}`

// inRegion returns a Config of a function in a region. tables has the table of each region.
func inRegion(t *testing.T, tables map[string]*memtable.Table, region string, variables ...string) boot.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(file, []byte(sharedRules), 0o600); err != nil {
		t.Fatal(err)
	}
	c := load(t, append(variables, "AWS_REGION="+region, "TABLE=counters", "RULES_FILE="+file)...)
	c.Clients.AWS = nil // the region is that of AWS_REGION
	c.Clients.DynamoDB = func(client *dynamodb.Client, table, namespace string) (limiter.Store, error) {
		return dynamostore.New(tables[client.Options().Region], dynamostore.Options{Table: table, Namespace: namespace})
	}
	return c
}

// Three functions in three regions admit together what the rules say, and one region alone admits all of it.
func TestConfig_Environment_regions(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-central-1")
	tables, admitted := map[string]*memtable.Table{"eu-central-1": {}, "us-east-1": {}, "ap-southeast-1": {}}, map[string]int{}
	now := time.Unix(1_800_000_000, 0)
	for _, region := range []string{"us-east-1", "ap-southeast-1", "eu-central-1"} {
		c := inRegion(t, tables, region, "REGIONS=eu-central-1,us-east-1,ap-southeast-1")
		store := storetest.Must(dynamostore.New(tables[region], dynamostore.Options{Table: "counters", Namespace: "test"}))
		e := storetest.Must(c.Environment(context.Background(), store, boot.Options{Logger: slog.New(slog.DiscardHandler)}))
		charges := e.Rules.Current().Charges(nil, "GET", rules.EncodedPath("/"), caller.Caller{User: "alice"})
		for range 320 {
			if d, err := e.Limiter.Take(t.Context(), now, charges); err != nil {
				t.Fatal(err)
			} else if d.Allowed {
				admitted[region]++
			}
		}
	}
	if admitted["us-east-1"] != 300 || admitted["ap-southeast-1"]+admitted["eu-central-1"] != 0 {
		t.Errorf("got %v admitted, want 300 in the first busy region and none in the others", admitted)
	}
}

// A function that does not know the regions refuses rules with shared limits, with a metric.
func TestConfig_Environment_regionsUnknown(t *testing.T) {
	var metrics bytes.Buffer
	c := inRegion(t, nil, "eu-central-1")
	store := storetest.Must(dynamostore.New(&memtable.Table{}, dynamostore.Options{Table: "counters", Namespace: "test"}))
	_, err := c.Environment(context.Background(), store, boot.Options{Logger: slog.New(slog.DiscardHandler), Metrics: &metrics})
	if err == nil || !strings.Contains(err.Error(), "this process has no list of the regions") || !strings.Contains(metrics.String(), telemetry.RulesRefused) {
		t.Errorf("got error %v and metrics %s, want a refusal and %s", err, metrics.String(), telemetry.RulesRefused)
	}
	variables := map[string]string{"NAMESPACE": "a", "STORE": "dynamodb", "TABLE": "t"}
	if got := boot.Check(variables, []byte(sharedRules)); !strings.Contains(got.Rules, "no list of the regions") {
		t.Errorf("a check without regions: got %+v, want a mistake in the rules", got)
	}
	variables[contract.VariableRegions] = "eu-central-1,us-east-1"
	if got := boot.Check(variables, []byte(sharedRules)); got.Rules+got.Environment != "" {
		t.Errorf("a check with regions: got %+v, want no mistake", got)
	}
}
