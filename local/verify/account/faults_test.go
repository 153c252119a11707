package account_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	webs "github.com/aws/aws-sdk-go-v2/service/apigatewayv2/types"
	formation "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/weir-limits/weir/local/verify"
)

// replacePolicy replaces a text in the deployed policy.
func replacePolicy(old, replacement string) func(*cloud) {
	return func(c *cloud) { c.policies["policy"] = strings.Replace(c.policies["policy"], old, replacement, 1) }
}

// counted adds a value to a metric.
func counted(namespace, name, dimension string, value float64) func(*cloud) {
	return func(c *cloud) { c.add(during(), namespace, name, dimension, value) }
}

// elsewhere deploys a changed template in the other region.
func elsewhere(old, replacement string) func(*cloud) {
	return func(c *cloud) {
		c.templates["eu-central-1"] = strings.ReplaceAll(c.templates[""], old, replacement)
	}
}

const forwarded, signed = "FunctionName=weir-dev-forward", "FunctionName=weir-dev-signingkeys"

// faults are changes of a healthy account, and the rows that fail because of each.
var faults = []struct {
	name string
	seed func(*cloud)
	rows []string
	raw  string // a part of the raw answer of the last row
}{
	{"policy too narrow", replacePolicy(`"dynamodb:UpdateItem"`, `"dynamodb:DescribeTable"`), []string{"role-permissions", "role-policies"}, "dynamodb:UpdateItem"},
	{"policy without a condition", replacePolicy(`"subjectkey"`, `"subjectkey", "subjectkey2"`), []string{"role-permissions", "role-policies"}, "subjectkey2"},
	{"policy of another region", replacePolicy(":dynamodb:eu-central-1:", ":dynamodb:eu-central-2:"), []string{"role-policies"}, "eu-central-2"},
	{"policy of the log of another region", replacePolicy("logs:us-east-1", "logs:us-east-2"), []string{"role-policies"}, "us-east-2"},
	{"policy of another table", replacePolicy("weir-dev-records", "weir-dev-log"), []string{"role-policies"}, "weir-dev-log"},
	{"policy with another effect", replacePolicy(`"Allow"`, `"Deny"`), []string{"role-policies"}, "got Deny, want Allow"},
	{"another policy", func(c *cloud) { c.policies["added"] = "{}" }, []string{"role-policies"}, "also has the policy added"},
	{"a managed policy", func(c *cloud) { c.managed = []string{"ReadOnlyAccess"} }, []string{"role-policies"}, "also has the managed policy ReadOnlyAccess"},
	{"alarm on another metric", func(c *cloud) {
		a := c.alarm("weir-dev-clockskew")
		a.Namespace, a.MetricName = aws.String("Nowhere"), aws.String("NoSuchMetric")
	}, []string{"alarm-metrics"}, "no metric NoSuchMetric in Nowhere"},
	{"alarm with a dimension", func(c *cloud) { c.alarm("weir-dev-clockskew").Dimensions = dimensions("Rule=x") }, []string{"alarm-metrics"}, "no metric ClockSkew in Weir/dev with Rule=x"},
	{"an alarm whose actions are off", func(c *cloud) { c.alarm("weir-dev-degraded").ActionsEnabled = aws.Bool(false) }, []string{"alarm-states"}, "Degraded: runs no action"},
	{"an alarm without actions", func(c *cloud) { c.alarm("weir-dev-cache").AlarmActions = nil }, []string{"alarm-states"}, "Cache: runs no action"},
	{"a deleted alarm", func(c *cloud) { c.alarms = c.alarms[1:] }, []string{"alarm-arrives", "alarm-metrics", "alarm-states"}, "alarm ApiErrors: not in CloudWatch"},
	{"another property", func(c *cloud) {
		c.drifts[0].StackResourceDriftStatus = formation.StackResourceDriftStatusModified
		c.drifts[0].PropertyDifferences = []formation.PropertyDifference{{PropertyPath: aws.String("/Name"), ActualValue: aws.String("other"), ExpectedValue: aws.String("name")}}
	}, []string{"drift"}, ": /Name: got other, want name"},
	{"dashboard without the search", func(c *cloud) { c.dashboard = `{"widgets":[]}` }, []string{"dashboard"}, "no SEARCH"},
	{"a route with a throttle", func(c *cloud) { c.routes = map[string]webs.RouteSettings{"GET /api/v1/search": {}} }, []string{"http-route-settings"}, "GET /api/v1/search"},
	{"a domain with an unknown base path", func(c *cloud) { c.mappings = []string{"v2"} }, []string{"domain-mappings"}, `BASE_PATH is "/v1", want /v2 among its paths`},
	{"error in the log", func(c *cloud) {
		c.lines = append(c.lines, line{during(), "weir-dev-log", `{"level":"WARN","msg":"subject hash key not read; this environment uses a random key"}`})
	}, []string{"log-errors", "subject-key-policy"}, "subject hash key not read"},
	{"subject key not read before the run", func(c *cloud) {
		c.lines = append(c.lines, line{time.Now().Add(-30 * time.Minute), "weir-dev-log", "subject hash key not read"})
	}, []string{"subject-key-policy"}, "subject hash key not read"},
	{"login denied", counted("Weir/dev", "Degraded", "", 40), []string{"elasticache-login"}, "40 of 40 decisions without the store"},
	{"an event dropped", counted("Weir/dev", "EventsDropped", "", 1), []string{"events"}, "20 events in the stream, 1 dropped"},
	{"rules rejected", counted("Weir/dev", "RulesRefused", "", 1), []string{"appconfig"}, "1 rejected documents"},
	{"lines not settled", counted("AWS/Lambda", "Invocations", forwarded, -20), []string{"settlement-subscription"}, "0 invocations"},
	{"settling fails", counted("AWS/Lambda", "Errors", forwarded, 1), []string{"settlement-subscription"}, "20 invocations, 1 of them failed"},
	{"settlements lost", counted("Weir/dev", "SettlementsLost", "", 3), []string{"settlement-subscription"}, "3 settlements lost"},
	{"signing keys not written", counted("AWS/Lambda", "Errors", signed, 1), []string{"signing-keys-policy"}, "1 of 20 invocations failed, among them the last"},
	{"a region without counters", func(c *cloud) { c.tables = slices.Delete(c.tables, 2, 3) }, []string{"regions-tables"}, "eu-central-1: no table weir-dev-counters"},
	{"another order of the regions", elsewhere("us-east-1,eu-central-1", "eu-central-1,us-east-1"), []string{"regions-settings"}, `eu-central-1: REGIONS is "eu-central-1,us-east-1", want "us-east-1,eu-central-1" as in us-east-1`},
	{"another namespace", elsewhere(`"NAMESPACE": "dev"`, `"NAMESPACE": "other"`), []string{"regions-settings"}, `eu-central-1: NAMESPACE is "other", want "dev" as in us-east-1`},
	{"regions that do not answer", counted("Weir/dev", "RegionsFailed", "", 20), []string{"regions-reached"}, "none of 20 calls was answered"},
	{"without metrics", func(c *cloud) { c.points = nil }, []string{"appconfig", "authorizer-metric", "elasticache-login", "events", "metrics", "settlement-subscription", "signing-keys-policy"}, "0 of 0 invocations failed"},
}

// Each fault makes exactly its rows fail.
func TestStack_faults(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			c := healthy(t)
			f.seed(c)
			all := checkAll(t, c.open(t))
			if got := with(all, verify.Fail); !slices.Equal(got, f.rows) {
				t.Errorf("failing rows: got %v, want %v", got, f.rows)
			}
			if last := f.rows[len(f.rows)-1]; !strings.Contains(all[last].Raw, f.raw) {
				t.Errorf("%s: got %q, want %q in it", last, all[last].Raw, f.raw)
			}
		})
	}
}

// A fault in the hour before the run causes a warning.
func TestStack_faults_before(t *testing.T) {
	c, before := healthy(t), time.Now().Add(-30*time.Minute)
	for _, name := range []string{"Degraded", "EventsDropped", "RulesRefused", "SettlementsLost", "RegionsFailed"} {
		c.add(before, "Weir/dev", name, "", 1)
		c.add(before.Add(10*time.Minute), "Weir/dev", name, "", 0) // a warning has the time of the last value
	}
	c.add(before, "AWS/Lambda", "Errors", signed, 1)
	c.lines = append(c.lines, line{before, "weir-dev-log", `{"level":"ERROR","msg":"an outage that has ended"}`})
	all := checkAll(t, c.open(t))
	if got := with(all, verify.Fail); len(got) > 0 {
		t.Errorf("faults before the run: got failing rows %v, want none", got)
	}
	got, want := []string{}, []string{"appconfig", "elasticache-login", "events", "log-errors", "regions-reached", "settlement-subscription", "signing-keys-policy"}
	for _, row := range slices.Sorted(maps.Keys(all)) {
		if strings.Contains(all[row].Warning, before.UTC().Format("15:04")+" UTC") {
			got = append(got, row)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows with a warning: got %v, want %v", got, want)
	}
}

// without removes the values of a metric since the run began.
func without(names ...string) func(*cloud) {
	return func(c *cloud) {
		c.points = slices.DeleteFunc(c.points, func(p point) bool { return slices.Contains(names, p.name) && p.at.After(time.Now()) })
	}
}

// A row whose proof nothing has produced is skipped.
func TestStack_Check_vacuous(t *testing.T) {
	for _, c := range []struct {
		row    string
		seed   func(*cloud)
		reason string
	}{
		{"elasticache-login", without("Allowed", "Refused"), "no decision since this run began"},
		{"events", func(c *cloud) {
			without("IncomingRecords")(c)
			c.add(time.Now().Add(-20*time.Minute), "AWS/Kinesis", "IncomingRecords", "StreamName=weir-dev-stream", 1)
		}, "no event since this run began"},
		{"regions-reached", without("RegionCalls"), "no request needed share of another region"},
		{"dashboard", without("Refused"), "has no data yet"},
		{"settlement-subscription", func(c *cloud) { c.lines = nil }, "no line of the access log"},
		{"settlement-subscription", func(c *cloud) {
			c.replace(`"forward", "NAMESPACE": "dev", "STORE": "redis"`, `"forward", "NAMESPACE": "dev", "STORE": "memory"`)
		}, "no access log is settled"},
		{"domain-mappings", func(c *cloud) { c.mappings = nil }, "no custom domain is mapped"},
	} {
		here := healthy(t)
		c.seed(here)
		if o := here.open(t).Check(t.Context(), c.row); o.Outcome != verify.Skip || !strings.Contains(o.Reason, c.reason) {
			t.Errorf("%s: got %+v, want a skip because %q", c.row, o, c.reason)
		}
	}
}

// The row reports the dimension that exists, and names the metrics without data. Before CloudWatch can list the metrics, it
// is skipped.
func TestStack_alarmMetrics(t *testing.T) {
	const missing = "no metric ElastiCacheProcessingUnits in AWS/ElastiCache with ServerlessCacheName=weir-dev; the dimension there is clusterId"
	for _, c := range []struct {
		name    string
		seed    func(*cloud)
		outcome verify.Outcome
		text    string
	}{
		{"healthy", func(*cloud) {}, verify.Pass, "Evictions in AWS/ElastiCache with clusterId=weir-dev; ClockSkew, Degraded in Weir/dev; Unauthorized in Weir/dev with FunctionName=weir-dev-authorizer"},
		{"another dimension", func(c *cloud) {
			*c.alarm("weir-dev-cache") = alarmOn("Cache", "AWS/ElastiCache", "ServerlessCacheName=weir-dev", "ElastiCacheProcessingUnits", "Evictions")
		}, verify.Fail, missing},
		{"not permitted", func(c *cloud) {
			c.fail = func(operation string) string { return map[string]string{"ListMetrics": "AccessDenied"}[operation] }
		}, verify.Skip, "do not permit"},
		{"no request", func(c *cloud) { c.points = nil }, verify.Skip, "no request was decided in the last hour"},
		{"a new stack", func(c *cloud) { c.points = nil; c.add(time.Now(), "Weir/dev", "Allowed", "", 1) }, verify.Skip, "CloudWatch lists a metric up to 15 minutes after its first data; run again later: no metric ConsumedWriteCapacityUnits in AWS/DynamoDB with TableName=weir-dev-counters"},
	} {
		t.Run(c.name, func(t *testing.T) {
			here := healthy(t)
			c.seed(here)
			if o := here.open(t).Check(t.Context(), "alarm-metrics"); o.Outcome != c.outcome || !strings.Contains(o.Warning+o.Reason+o.Raw, c.text) || strings.Contains(o.Warning, "Allowed") {
				t.Errorf("got %+v, want %s with %q", o, c.outcome, c.text)
			}
		})
	}
}

// An alarm on an API or a function that does not exist fails the row, although APIs and functions can be idle.
func TestStack_alarmMetrics_idle(t *testing.T) {
	for _, tt := range []struct {
		id, namespace, dimension, metric string
		existing                         string // another REST API
		rest, http                       bool   // the run sends requests to these APIs
		outcome                          verify.Outcome
		text                             string
	}{
		{"ApiErrors", "AWS/ApiGateway", "ApiName=weird", "Count", "", false, false, verify.Fail, "no metric Count in AWS/ApiGateway with ApiName=weird, and the account has no REST API of this name"},
		{"ApiErrors", "AWS/ApiGateway", "ApiName=weird", "Count", "weird", true, false, verify.Fail, "no metric Count in AWS/ApiGateway with ApiName=weird, although the run sent requests to an API of this kind"},
		{"ApiErrors", "AWS/ApiGateway", "APIName=weir-dev", "Count", "", false, false, verify.Fail, "with APIName=weir-dev; the dimension there is ApiName"},
		{"FunctionErrors", "AWS/Lambda", "Function=weir-dev-authorizer", "Errors", "", false, false, verify.Fail, "no metric Errors in AWS/Lambda with Function="},
		{"FunctionErrors", "AWS/Lambda", "FunctionName=other", "Errors", "", false, false, verify.Fail, ", and the stack has no such function"},
		{"ApiErrors", "AWS/ApiGateway", "ApiName=weird", "Count", "weird", false, true, verify.Pass, "Count in AWS/ApiGateway with ApiName=weird"},
		{"ApiErrors", "AWS/ApiGateway", "ApiId=web", "Count", "", true, false, verify.Pass, "Count in AWS/ApiGateway with ApiId=web"},
		{"ApiErrors", "AWS/ApiGateway", "ApiName=weir-dev", "Count", "", true, true, verify.Pass, ""},
		{"Throttled", "AWS/ApiGateway", "ApiName=weird", "Count", "weird", true, false, verify.Pass, "Count in AWS/ApiGateway with ApiName=weird"}, // the requests were to another API
	} {
		t.Run(tt.dimension+" "+tt.existing, func(t *testing.T) {
			c := healthy(t)
			*c.alarm(physical(tt.id)) = alarmOn(tt.id, tt.namespace, tt.dimension, tt.metric)
			c.restAPIs = append(c.restAPIs, tt.existing)
			s := c.open(t)
			s.REST, s.HTTP = tt.rest, tt.http
			if o := s.Check(t.Context(), "alarm-metrics"); o.Outcome != tt.outcome || !strings.Contains(o.Raw+o.Warning, tt.text) {
				t.Errorf("got %+v, want %s with %q", o, tt.outcome, tt.text)
			}
		})
	}
}
