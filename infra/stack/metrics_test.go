package stack_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/telemetry"
)

// unused are metrics that no alarm or dashboard shows. infra/README.md describes alarms on them.
var unused = []string{telemetry.RuleDimension + " " + telemetry.RuleAllowed, telemetry.RuleDimension + " " + telemetry.RuleMarked,
	telemetry.ExemptionDimension + " " + telemetry.Exempt}

// ofCount are metrics that functions write only for a limit with count or notify, for a foreign API key, for a record
// with a mistake, for requests that no rule matches, for requests around a distribution, or for a limit that regions share.
var ofCount = []string{
	telemetry.RegionCalls, telemetry.TransfersLost, telemetry.RegionsFailed, telemetry.Unmatched, telemetry.RecordsIgnored,
	telemetry.ForeignKeys, telemetry.ClaimsUncounted, telemetry.AddressesNotFound, telemetry.Notices, telemetry.SettlementsLost,
	telemetry.ReportsRejected, telemetry.CostsUnread, telemetry.DebtExcess,
}

// written returns all metrics that functions write, each as dimension and name.
func written() []string {
	names := telemetry.Metrics()
	for _, name := range telemetry.RuleMetrics() {
		names = append(names, telemetry.RuleDimension+" "+name)
	}
	names = append(names, telemetry.ExemptionDimension+" "+telemetry.Exempt, telemetry.FunctionDimension+" "+telemetry.Unauthorized)
	slices.Sort(names)
	return names
}

var (
	graphed  = regexp.MustCompile(`"Weir/dev","(\w+)"`)
	searched = regexp.MustCompile(`\{\\"Weir/dev\\",\\"(\w+)\\"\} MetricName=\\"(\w+)\\"`)
)

// Alarms and dashboard use exactly the metrics that functions write, except unused.
func TestStack_metrics(t *testing.T) {
	made := templateOf(t)
	used := map[string]bool{}
	_, alarms := made.of("AWS::CloudWatch::Alarm")
	paid := 0
	for _, a := range alarms {
		paid += len(metricsOf(a.Properties))
		for _, m := range metricsOf(a.Properties) {
			if m["Namespace"] == "Weir/dev" {
				name := m["MetricName"].(string)
				if strings.Contains(text(t, m["Dimensions"]), `"Name":"FunctionName"`) {
					name = telemetry.FunctionDimension + " " + name
				}
				used[name] = true
			}
		}
	}
	if want := fmt.Sprintf("%d metrics in alarms", paid); !strings.Contains(read(t, "../COSTS.md"), want) {
		t.Errorf("infra/COSTS.md: got no text %q, want it", want)
	}
	_, dashboard := made.one(t, "AWS::CloudWatch::Dashboard", "")
	var body strings.Builder
	for _, part := range dashboard.Properties["DashboardBody"].(map[string]any)["Fn::Join"].([]any)[1].([]any) {
		if s, ok := part.(string); ok {
			body.WriteString(s)
		}
	}
	for _, match := range graphed.FindAllStringSubmatch(body.String(), -1) {
		used[match[1]] = true
	}
	for _, match := range searched.FindAllStringSubmatch(body.String(), -1) {
		used[match[1]+" "+match[2]] = true
	}
	_, filters := made.of("AWS::Logs::MetricFilter") // a metric filter also writes a metric
	for _, f := range filters {
		delete(used, f.Properties["MetricTransformations"].([]any)[0].(map[string]any)["MetricName"].(string))
	}
	looked := slices.Sorted(maps.Keys(used))
	want := slices.DeleteFunc(written(), func(name string) bool { return slices.Contains(unused, name) || slices.Contains(ofCount, name) })
	if !slices.Equal(looked, want) {
		t.Errorf("metrics that the stack shows:\n got %v\nwant %v", looked, want)
	}
	if len(want)+len(unused)+len(ofCount) != 40 {
		t.Errorf("got %d written metrics; update the number here and the cost in infra/COSTS.md", len(want)+len(unused)+len(ofCount))
	}
	if !strings.Contains(body.String(), "sort requests desc\\n| limit 10\"") {
		t.Error("dashboard: got no query, want that of refused callers")
	}
}

// metricsOf returns the metrics of an alarm: a single one, or those of its metric math.
func metricsOf(alarm map[string]any) (all []map[string]any) {
	if alarm["MetricName"] != nil {
		return []map[string]any{alarm}
	}
	metrics, _ := alarm["Metrics"].([]any)
	for _, m := range metrics {
		if stat, ok := m.(map[string]any)["MetricStat"].(map[string]any); ok {
			all = append(all, stat["Metric"].(map[string]any))
		}
	}
	return all
}
