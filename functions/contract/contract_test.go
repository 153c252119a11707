package contract_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// The package imports only the standard library.
func TestImports(t *testing.T) {
	files := storetest.Must(filepath.Glob("*.go"))
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range parsed.Imports {
			if strings.Contains(i.Path.Value, ".") {
				t.Errorf("%s imports %s, want the standard library only", file, i.Path.Value)
			}
		}
	}
}

// The functions read every variable that the infrastructure sets.
func TestVariables(t *testing.T) {
	read := variablesOf(reflect.TypeFor[boot.Config]())
	for _, name := range append(contract.Variables(), contract.VariableBasePath, contract.VariableJWTAlgorithms, contract.VariableLocal) {
		if !slices.Contains(read, name) {
			t.Errorf("%s: got no function that reads it, want at least one", name)
		}
	}
	if len(read) < len(contract.Variables()) {
		t.Errorf("variables of boot.Config: got %d, want at least the %d of the contract", len(read), len(contract.Variables()))
	}
}

func variablesOf(t reflect.Type) (names []string) {
	for field := range t.Fields() {
		if field.Anonymous {
			names = append(names, variablesOf(field.Type)...)
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("env"), ",")
		names = append(names, name)
	}
	return names
}

// The functions accept every value of a variable that the contract lists.
func TestVariables_values(t *testing.T) {
	base := map[string]string{
		contract.VariableNamespace: "dev", contract.VariableStore: contract.StoreMemory, contract.VariableRecordsTable: "records",
		contract.VariableJWTIssuer: "i", contract.VariableJWTAudience: "a",
	}
	for _, each := range [][2]string{
		{contract.VariableStore, contract.StoreDynamoDB + "counters"}, {contract.VariableStore, contract.StoreMemory},
		{contract.VariableRulesFrom, contract.RulesTable}, {contract.VariableRulesFrom, contract.RulesDeployment},
		{contract.VariableJWKS, contract.JWKSRecords},
	} {
		variables := maps.Clone(base)
		variables[each[0]] = each[1]
		if got := check(t, variables, document).Environment; got != "" {
			t.Errorf("%s=%s: got problem %s, want none", each[0], each[1], got)
		}
	}
	for sample, ok := range map[int]bool{contract.MaxSample: true, contract.MaxSample + 1: false} {
		variables := maps.Clone(base)
		variables[contract.VariableSample] = strconv.Itoa(sample)
		if got := check(t, variables, document).Environment; (got == "") != ok {
			t.Errorf("DECISION_SAMPLE=%d: got problem %q, want it accepted: %t", sample, got, ok)
		}
	}
}

// Each bundle is the name of a folder with the main package of a function.
func TestRoles(t *testing.T) {
	for _, role := range []string{contract.Authorizer, contract.Handler, contract.Extension, contract.Log, contract.Deploy} {
		if _, err := os.Stat(filepath.Join("..", role, "main.go")); err != nil {
			t.Error(err)
		}
	}
}

func TestTables(t *testing.T) {
	if contract.KeyAttribute != dynamostore.KeyAttribute {
		t.Errorf("key of the counters: got %s, want %s", contract.KeyAttribute, dynamostore.KeyAttribute)
	}
}

func TestFields(t *testing.T) {
	got, want := slices.Sorted(maps.Keys(contract.FieldKeys())), slices.Sorted(slices.Values(httplimit.ExposedFields()))
	if !slices.Equal(got, want) {
		t.Errorf("fields of an answer with a key: got %q, want %q", got, want)
	}
	refusal := lambdahttp.DecisionContext(httplimit.MalformedPath(), limiter.Global(), "free")
	if got := refusal[contract.KeyWait]; got != "null" {
		t.Errorf("wait of a refusal that no wait ends: got %v, want null", got)
	}
	for _, key := range contract.BodyKeys() {
		if _, ok := refusal[key]; !ok {
			t.Errorf("context of a refusal without limits: got no %s, want one", key)
		}
	}
}

// A Recorder writes every metric of the contract and no other.
func TestMetrics(t *testing.T) {
	var want []string
	for _, name := range telemetry.RuleMetrics() {
		want = append(want, telemetry.RuleDimension+" "+name)
	}
	want = append(want, telemetry.ExemptionDimension+" "+telemetry.Exempt, telemetry.FunctionDimension+" "+telemetry.Unauthorized)
	want = append(want, telemetry.Metrics()...)
	slices.Sort(want)
	got, namespaces := written(t)
	if !slices.Equal(got, want) {
		t.Errorf("metrics of the Recorder:\n got %v\nwant %v", got, want)
	}
	if !slices.Equal(namespaces, []string{telemetry.Namespace("dev")}) {
		t.Errorf("namespaces: got %v, want only %s", namespaces, telemetry.Namespace("dev"))
	}
}

// record returns the log of a Recorder that has written every metric.
func record() []byte {
	var log bytes.Buffer
	r := telemetry.New(&log, "dev", nil)
	r.CountErrors("authorizer")
	now := time.Now()
	l, err := limiter.NewLimit(limiter.Limit{Name: "a", Rule: "GET /a", Rate: algo.Rate{Requests: 1, Window: time.Second}})
	if err != nil {
		panic(err)
	}
	r.Rules(now, 1, now, []string{l.Rule}, []string{"health"})
	d := limiter.Decision{Allowed: true, Limit: l, Shadowed: l, Over: l, FromCache: true, Reason: limiter.ReasonTimeout, StoreCalls: 1,
		Overshoot: 1, Clamped: 1, Evicted: 1, Refunds: limiter.Refunds{Given: 1, Dropped: 1},
		Transfer: limiter.Transfer{Calls: 1, Lost: 1, Failed: 1}}
	charges := []limiter.Charge{{Limit: l, Subject: limiter.User("alice")}}
	for _, err := range []error{nil, caller.ErrInvalidCredential, caller.ErrUnverified} {
		r.Record(telemetry.Outcome{Time: now, Charges: charges, Decision: d, Err: err})
	}
	r.Record(telemetry.Outcome{Time: now, Decision: limiter.Decision{Allowed: true}, Exemption: "health", RecordIgnored: true, Unmatched: true,
		Uncounted: true,
		Caller:    caller.Caller{ForeignKey: true, IPNotFound: true}})
	d.Allowed = false
	r.Record(telemetry.Outcome{Time: now, Decision: d})
	d.Reason = limiter.ReasonBusy
	r.Record(telemetry.Outcome{Time: now, Decision: d})
	d.Failed, d.LocalFull, d.Evicted = true, true, 1
	r.Record(telemetry.Outcome{Time: now, Decision: d})
	r.RulesRefused(now)
	r.WatchClock(func() (ahead, uncertainty time.Duration, ok bool) { return time.Second, 0, true })
	r.Settled(telemetry.Settlement{Time: now, Rejected: 1, Unread: 1, Settlement: limiter.Settlement{Lost: 1,
		Excess: []limiter.Excess{{Cost: 5}}}})
	_ = r.Notice(context.Background(), limiter.Notice{Time: now, Subject: limiter.User("alice"), Limit: l, Percent: 80})
	r.RulesRefused(now.Add(time.Second)) // writes the metrics of the second before
	return log.Bytes()
}

// written returns the metrics in the log and their namespaces. A metric with a dimension is
// "DIMENSION NAME".
func written(t *testing.T) (names, namespaces []string) {
	t.Helper()
	for line := range bytes.Lines(record()) {
		var format struct {
			AWS struct {
				CloudWatchMetrics []struct {
					Namespace  string
					Dimensions [][]string
					Metrics    []struct{ Name string }
				}
			} `json:"_aws"`
		}
		if err := json.Unmarshal(line, &format); err != nil {
			t.Fatal(err)
		}
		for _, directive := range format.AWS.CloudWatchMetrics {
			namespaces = append(namespaces, directive.Namespace)
			for _, m := range directive.Metrics {
				names = append(names, strings.TrimSpace(strings.Join(directive.Dimensions[0], " ")+" "+m.Name))
			}
		}
	}
	slices.Sort(names)
	slices.Sort(namespaces)
	return slices.Compact(names), slices.Compact(namespaces)
}

// The log lines about refusals have the members that the contract lists. One kind of line counts refused requests.
func TestLine(t *testing.T) {
	found := false
	for line := range bytes.Lines(record()) {
		var members map[string]any
		if err := json.Unmarshal(line, &members); err != nil {
			t.Fatal(err)
		}
		if kind := members[contract.LineKind]; kind == nil || kind == telemetry.LineNotice {
			continue
		}
		found = found || members[contract.LineKind] == telemetry.LineRefused
		for _, want := range []string{contract.LineSubject, contract.LineLimit, contract.LineCount} {
			if members[want] == nil {
				t.Errorf("log line: got %s, want the member %s", line, want)
			}
		}
	}
	if !found {
		t.Error("log: got no line about a refused caller, want one")
	}
}

const document = `{"version": 7, "rules": [{"endpoint": "/a", "on_error": "local", "local_processes": 20, "limits": {"*": {"requests": ` +
	`100, "window": "1m"}}}]}`

func check(t *testing.T, variables map[string]string, rules string) boot.Checked {
	t.Helper()
	return boot.Check(variables, []byte(rules))
}

func TestCheck(t *testing.T) {
	variables := map[string]string{contract.VariableNamespace: "dev", contract.VariableStore: "dynamodb://counters"}
	if got, want := check(t, variables, document), (boot.Checked{Version: 7, LocalProcesses: 20, Refusal: "problem"}); got != want {
		t.Errorf("checked: got %+v, want %+v", got, want)
	}
	got := check(t, map[string]string{contract.VariableNamespace: "a b", contract.VariableStore: "memory:"}, `{"rules":[{"endpoint":"x"}]}`)
	if !strings.HasPrefix(got.Environment, "NAMESPACE: ") || !strings.HasPrefix(got.Rules, "line 1: rules[0].endpoint") {
		t.Errorf("checked: got %+v, want mistakes in Environment and Rules", got)
	}
	for counted, want := range map[string]boot.Checked{
		`"count": "requests"`:            {Version: 7, LocalProcesses: 20, Refusal: "problem"},
		`"count": "cost", "reserve": 5`:  {Version: 7, LocalProcesses: 20, Refusal: "problem", Counts: true},
		`"count": "bytes", "reserve": 5`: {Version: 7, LocalProcesses: 20, Refusal: "problem", Counts: true, CountsFromLog: true},
	} {
		if got := check(t, variables, strings.Replace(document, `"window"`, counted+`, "window"`, 1)); got != want {
			t.Errorf("%s: got %+v, want %+v", counted, got, want)
		}
	}
	for endpoint, want := range map[string]bool{`"*"`: true, `"*", "method": "GET"`: false} {
		if got := check(t, variables, strings.Replace(document, `"/a"`, endpoint, 1)); got.MatchesAll != want || got.Rules != "" {
			t.Errorf("%s: got %+v, want a rule that matches all: %t", endpoint, got, want)
		}
	}
	eight := strings.Repeat(`{"name": "l", "requests": 100, "window": "1m"},`, 8)
	for i := range 8 {
		eight = strings.Replace(eight, `"l"`, fmt.Sprintf(`"l%d"`, i), 1)
	}
	tooLarge := strings.Replace(document, `{"requests": 100, "window": "1m"}`, "["+strings.TrimSuffix(eight, ",")+"]", 1)
	for _, store := range []string{"dynamodb://counters", "redis://h"} { // a document fits every store
		variables[contract.VariableStore] = store
		if got := check(t, variables, tooLarge); !strings.Contains(got.Rules, "want at most 1024 (one write unit)") {
			t.Errorf("eight limits of a caller with %s: got %+v, want an item that is too large", store, got)
		}
	}
	variables[contract.VariableRulesVersion] = "9"
	if got := check(t, variables, strings.Replace(document, `"version": 7, `, "", 1)); got.Version != 9 {
		t.Errorf("checked: got %+v, want the version of the variable", got)
	}
}
