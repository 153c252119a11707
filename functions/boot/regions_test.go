package boot_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/functions/records/recordstest"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/dynamostore/memtable"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
)

const sharedRules = `{"version":1,"rules":[{"endpoint":"*","limits":{"*":{"name":"l","requests":300,"window":"100d",` +
	`"algorithm":"fixed_window","regions":"shared"}}}]}`

// inRegion returns a Config of a function in a region. tables has the table of each region.
func inRegion(t *testing.T, tables map[string]*memtable.Table, region string, variables ...string) boot.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(file, []byte(sharedRules), 0o600); err != nil {
		t.Fatal(err)
	}
	c := load(t, append(variables, "AWS_REGION="+region, "STORE=dynamodb://counters", "RULES_FILE="+file)...)
	c.AWS = nil // the region is that of AWS_REGION
	boot.OpenTables(t, func(client *dynamodb.Client, table, namespace string) (limiter.Store, error) {
		return dynamostore.New(tables[client.Options().Region], dynamostore.Options{Table: table, Namespace: namespace})
	})
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

// A region with :0 has no share: it takes its requests from the others, and gives them none.
func TestConfig_Environment_regionsWithout(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-central-1")
	tables, now := map[string]*memtable.Table{"eu-central-1": {}, "us-east-1": {}}, time.Unix(1_800_000_000, 0)
	admitted := map[string]int{}
	for _, region := range []string{"us-east-1", "eu-central-1"} {
		c := inRegion(t, tables, region, "REGIONS=2:eu-central-1,us-east-1:0")
		store := storetest.Must(dynamostore.New(tables[region], dynamostore.Options{Table: "counters", Namespace: "test"}))
		e := storetest.Must(c.Environment(context.Background(), store, boot.Options{Logger: slog.New(slog.DiscardHandler)}))
		charges := e.Rules.Current().Charges(nil, "GET", rules.EncodedPath("/"), caller.Caller{User: "alice"})
		if got, want := charges[0].Limit.Rate.Regions.Without, uint16(2); got != want {
			t.Errorf("%s: got the regions without share %b, want %b", region, got, want)
		}
		calls := 0
		for range 200 {
			d, err := e.Limiter.Take(t.Context(), now, charges)
			if err != nil {
				t.Fatal(err)
			}
			calls += d.Transfer.Calls
			if d.Allowed {
				admitted[region]++
			}
		}
		if region == "eu-central-1" && calls > 0 {
			t.Errorf("got %d calls of a region without share, want none", calls)
		}
	}
	if sum := admitted["us-east-1"] + admitted["eu-central-1"]; admitted["us-east-1"] == 0 || sum != 150 {
		t.Errorf("got %v admitted, want 150 together: the share of the other region", admitted)
	}
	for list, want := range map[string]string{"2:eu-central-1,us-east-1:0": "",
		"2:eu-central-1:0,us-east-1:0":  "REGIONS: got :0 in all regions",
		"eu-central-1,us-east-1:0":      "without a number",
		"2:eu-central-1,eu-central-1:0": "got eu-central-1 twice", "eu-central-1,us-east-1:1": `got "us-east-1:1"`} {
		got := boot.Check(map[string]string{"NAMESPACE": "a", "STORE": "dynamodb://counters", contract.VariableRegions: list},
			[]byte(sharedRules))
		if got.Rules != "" || !strings.Contains(got.Environment, want) || want == "" && got.Environment != "" {
			t.Errorf("%s: got %+v, want %q", list, got, want)
		}
	}
}

// reached counts the calls of a table.
type reached struct {
	*memtable.Table
	calls chan struct{}
}

func (r reached) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	defer func() { r.calls <- struct{}{} }()
	return r.Table.GetItem(ctx, in, o...)
}

// A function opens the connections to the other regions once, at the start.
func TestConfig_Environment_regionsWarm(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-central-1")
	calls := make(chan struct{}, 10)
	c := inRegion(t, nil, "eu-central-1", "REGIONS=eu-central-1,us-east-1")
	boot.OpenTables(t, func(_ *dynamodb.Client, table, namespace string) (limiter.Store, error) {
		return dynamostore.New(reached{&memtable.Table{}, calls}, dynamostore.Options{Table: table, Namespace: namespace})
	})
	own := storetest.Must(dynamostore.New(&memtable.Table{}, dynamostore.Options{Table: "counters", Namespace: "test"}))
	storetest.Must(c.Environment(t.Context(), own, boot.Options{Logger: slog.New(slog.DiscardHandler)}))
	<-calls
	if len(calls) > 0 {
		t.Errorf("got %d more calls of the other region, want one", len(calls))
	}
}

// A function that does not know the regions refuses rules with shared limits, with a metric.
func TestConfig_Environment_regionsUnknown(t *testing.T) {
	var metrics bytes.Buffer
	c := inRegion(t, nil, "eu-central-1")
	store := storetest.Must(dynamostore.New(&memtable.Table{}, dynamostore.Options{Table: "counters", Namespace: "test"}))
	_, err := c.Environment(context.Background(), store, boot.Options{Logger: slog.New(slog.DiscardHandler), Metrics: &metrics})
	if err == nil || !strings.Contains(err.Error(), "this process has no list of the regions") || !strings.Contains(metrics.String(),
		telemetry.RulesRefused) {
		t.Errorf("got error %v and metrics %s, want a refusal and %s", err, metrics.String(), telemetry.RulesRefused)
	}
	variables := map[string]string{"NAMESPACE": "a", "STORE": "dynamodb://counters"}
	if got := boot.Check(variables, []byte(sharedRules)); !strings.Contains(got.Rules, "no list of the regions") {
		t.Errorf("a check without regions: got %+v, want a mistake in the rules", got)
	}
	variables[contract.VariableRegions] = "eu-central-1,us-east-1"
	if got := boot.Check(variables, []byte(sharedRules)); got.Rules+got.Environment != "" {
		t.Errorf("a check with regions: got %+v, want no mistake", got)
	}
}

// A function creates keys in the first region. So functions that start at once in two regions have the same keys, although
// no record has reached the other region yet.
func TestConfig_Environment_regionsKeys(t *testing.T) {
	table, list := "weir-test-"+rand.Text(), []string{"eu-central-1", "us-east-1"}
	tables := map[string]*memtable.Table{list[0]: {}, list[1]: {}}
	endpoint := recordstest.Regional(t, table, list...)
	hashes, found := map[string]bool{}, map[string]bool{}
	for _, region := range []string{"us-east-1", "eu-central-1"} {
		c := inRegion(t, tables, region, "REGIONS="+strings.Join(list, ","), "RECORDS_TABLE="+table, "DYNAMODB_ENDPOINT="+endpoint,
			"WEIR_LOCAL=true")
		client := storetest.Must(c.DynamoDBClient(t.Context()))
		_ = storetest.Must(records.GetConsistent(t.Context(), client, table, "no key")) // opens a connection
		hash, log := hashOf(t, c)
		for range 10 { // a start waits half a second for the first region, and a busy machine can take longer
			if log != "" {
				hash, log = hashOf(t, c)
			}
		}
		hashes[hash+log] = true
		store := storetest.Must(dynamostore.New(tables[region], dynamostore.Options{Table: "counters", Namespace: "test"}))
		e := storetest.Must(c.Environment(t.Context(), store, boot.Options{Logger: slog.New(slog.DiscardHandler)}))
		for try := range 10 { // so does the first signature
			if _, err := e.MACs.Sign(t.Context(), noon.Add(time.Duration(try)*time.Minute), []byte("line")); err == nil {
				break
			}
		}
		for _, key := range []string{contract.SubjectKeyKey, contract.MACKeyKey} {
			found[region+" "+key] = storetest.Must(records.GetConsistent(t.Context(), client, table, key)) != nil
		}
	}
	want := map[string]bool{"us-east-1 subjectkey": false, "us-east-1 mackey": false, "eu-central-1 subjectkey": true,
		"eu-central-1 mackey": true}
	if len(hashes) != 1 || !maps.Equal(found, want) {
		t.Errorf("got the hashes %v and the keys %v, want one hash without a warning and the keys %v", hashes, found, want)
	}
}
