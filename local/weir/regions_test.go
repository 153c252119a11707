package main

import (
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/clients"
	"github.com/weir-limits/weir/functions/records/recordstest"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/operator"
)

// With REGIONS, explain, usage and reset act in each region, or in that of --region, and name one that does not answer.
func TestOperator_regions(t *testing.T) {
	const list = "eu-central-1,ap-southeast-1,us-east-1"
	table := "weir-test-" + rand.Text()
	file := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(file, []byte(`{"version":7,"rules":[{"endpoint":"*","limits":{"*":{"name":"l","requests":300,"period":"day",`+
		`"regions":"shared"}}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"DYNAMODB_ENDPOINT": recordstest.Regional(t, table, "eu-central-1", "us-east-1"),
		"REGIONS": list, "NAMESPACE": checkouttest.Namespace(), "WEIR_LOCAL": "true", "RULES_FILE": file, "STORE": "dynamodb://" + table} {
		t.Setenv(name, value)
	}
	for _, region := range []string{"us-east-1", "eu-central-1"} {
		t.Setenv("AWS_REGION", region)
		c := storetest.Must(clients.Load(os.LookupEnv))
		client := storetest.Must(c.DynamoDBClient(t.Context()))
		e := storetest.Must(c.Environment(t.Context(), storetest.Must(dynamostore.Open(client, table, c.Namespace)),
			boot.Options{Logger: slog.New(slog.DiscardHandler)}))
		charges := e.Rules.Current().Charges(nil, "GET", rules.EncodedPath("/"), caller.Caller{User: "alice"})
		charges[0].Cost = 30
		if d, err := e.Limiter.Take(t.Context(), time.Now(), charges); err != nil || !d.Allowed || d.Capacity != 300 {
			t.Fatalf("%s: got %+v and error %v, want an admission", region, d, err)
		}
	}
	to := []string{"--store", "dynamodb", "--rules", file, "--json"}
	remaining := func(wantCode int, args ...string) map[string]int64 {
		t.Helper()
		code, out, errs := weir(t, append(args, to...)...)
		if code != wantCode || (code != 0) != strings.Contains(errs, "region ap-southeast-1: ") {
			t.Fatalf("%q: got exit %d and stderr %q, want exit %d, and an error that names a region that fails", args, code, errs, wantCode)
		}
		left, decoder := map[string]int64{}, json.NewDecoder(strings.NewReader(out))
		for decoder.More() {
			var each struct {
				Region string
				Answer operator.Usage
			}
			if err := decoder.Decode(&each); err != nil {
				t.Fatal(err)
			}
			left[each.Region] = leftOf(t, each.Answer.Limits, "rules[0].limits.*")
		}
		return left
	}
	if left := remaining(1, "usage", "user:alice"); len(left) != 2 || left["eu-central-1"] != 70 || left["us-east-1"] != 70 {
		t.Errorf("usage: got %v remaining, want 70 of the share of 100 in both regions", left)
	}
	if left := remaining(0, "reset", "user:alice", "--region", "us-east-1"); len(left) != 1 {
		t.Errorf("reset in one region: got %v, want an answer of that region", left)
	}
	if left := remaining(1, "explain", "GET", "/", "--user", "alice"); left["eu-central-1"] != 70 || left["us-east-1"] != 100 {
		t.Errorf("explain after the reset: got %v remaining, want 70 and 100", left)
	}
	if code, _, errs := weir(t, "usage", "user:alice", "--url", "http://127.0.0.1:1"); code != 1 || strings.Contains(errs, "region") {
		t.Errorf("without --store: got exit %d and stderr %q, want a question to the gateway", code, errs)
	}
	t.Setenv("REGIONS", "")
	if code, _, errs := weir(t, "usage", "user:alice", "--region", "us-east-1", "--store", "dynamodb", "--rules", file); code != 2 ||
		!strings.Contains(errs, "--region: requires a store in DynamoDB and the variable REGIONS") {
		t.Errorf("--region without REGIONS: got exit %d and stderr %q, want a usage error", code, errs)
	}
}
