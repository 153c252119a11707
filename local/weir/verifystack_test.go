package main

import (
	"encoding/base64"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/local/gateway/template/templatetest"
)

// stackTemplate is the template of a stack in two regions. Like that of a release, it has a condition, which does not hold.
const stackTemplate = `{"Resources": {
	"Counters": {"Type": "AWS::DynamoDB::Table", "Properties": {"TimeToLiveSpecification": {"AttributeName": "ttl", "Enabled": true}}},
	"Cache": {"Type": "AWS::ElastiCache::ServerlessCache", "Condition": "UsesElastiCache"},
	"Degraded": {"Type": "AWS::CloudWatch::Alarm", "Properties": {"AlarmActions": ["topic"]}},
	"Authorizer": {"Type": "AWS::Lambda::Function", "Properties": {"Environment": {"Variables": {"WEIR_FUNCTION": "authorizer", "NAMESPACE": "dev", "TABLE": {"Fn::If": ["UsesElastiCache", {"Ref": "AWS::NoValue"}, {"Ref": "Counters"}]}, "REGIONS": "REGIONS"}}}}
}}`

// stackAccount is an account with one stack in each region. It answers the calls that the tests need, and permits no other.
type stackAccount struct {
	name, output, regions string // of the stack: its name, its output RestUrl, and the variable REGIONS
	throttled             int    // calls of DescribeStacks to throttle
	calls                 []string
}

// open starts the account and configures AWS clients to use it.
func (a *stackAccount) open(t *testing.T) {
	t.Helper()
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": server.URL, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret"} {
		t.Setenv(name, value)
	}
}

// ServeHTTP implements http.Handler.
func (a *stackAccount) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	action, refused := r.FormValue("Action"), ""
	a.calls = append(a.calls, action)
	metric := ""
	if slices.Contains([]string{"Allowed", "Refused", "RegionCalls"}, r.FormValue("MetricName")) {
		metric = "<member><Timestamp>" + time.Now().UTC().Format(time.RFC3339) + "</Timestamp><Sum>1</Sum></member>"
	}
	listed, compared := "", ""
	for id, kind := range map[string]string{"Counters": "AWS::DynamoDB::Table", "Degraded": "AWS::CloudWatch::Alarm", "Authorizer": "AWS::Lambda::Function"} {
		listed += "<member><LogicalResourceId>" + id + "</LogicalResourceId><PhysicalResourceId>" + id + "</PhysicalResourceId><ResourceType>" + kind + "</ResourceType><ResourceStatus>CREATE_COMPLETE</ResourceStatus></member>"
		compared += "<member><LogicalResourceId>" + id + "</LogicalResourceId><StackResourceDriftStatus>IN_SYNC</StackResourceDriftStatus></member>"
	}
	result, known := map[string]string{
		"DescribeStacks":                    "<Stacks><member><StackStatus>CREATE_COMPLETE</StackStatus><Outputs><member><OutputKey>RestUrl</OutputKey><OutputValue>" + a.output + "</OutputValue></member></Outputs></member></Stacks>",
		"GetTemplate":                       "<TemplateBody>" + html.EscapeString(strings.Replace(stackTemplate, `"REGIONS": "REGIONS"`, `"REGIONS": "`+a.regions+`"`, 1)) + "</TemplateBody>",
		"ListStackResources":                "<StackResourceSummaries>" + listed + "</StackResourceSummaries>",
		"DetectStackDrift":                  "<StackDriftDetectionId>detection</StackDriftDetectionId>",
		"DescribeStackDriftDetectionStatus": "<DetectionStatus>DETECTION_COMPLETE</DetectionStatus>",
		"DescribeStackResourceDrifts":       "<StackResourceDrifts>" + compared + "</StackResourceDrifts>",
		"DescribeAlarms":                    "<MetricAlarms><member><AlarmName>Degraded</AlarmName><StateValue>OK</StateValue><ActionsEnabled>true</ActionsEnabled><AlarmActions><member>topic</member></AlarmActions></member></MetricAlarms>",
		"GetMetricStatistics":               "<Datapoints>" + metric + "</Datapoints>",
	}[action]
	switch {
	case action == "DescribeStacks" && a.throttled > 0:
		a.throttled--
		refused = "Throttling"
	case action == "DescribeStacks" && r.FormValue("StackName") != a.name:
		refused = "ValidationError"
	case strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".DescribeTable"):
		refused = "ResourceNotFoundException"
	case !known: // such as ListMetrics: the command would wait minutes for the metrics of alarms
		refused = "AccessDenied"
	}
	if refused != "" {
		w.Header().Set("X-Amzn-Errortype", refused)
		w.WriteHeader(http.StatusBadRequest)
		if action == "" { // not a query service
			fmt.Fprint(w, "{}")
			return
		}
		fmt.Fprintf(w, "<ErrorResponse><Error><Code>%s</Code></Error></ErrorResponse>", refused)
		return
	}
	fmt.Fprintf(w, "<%[1]sResponse><%[1]sResult>%[2]s</%[1]sResult></%[1]sResponse>", action, result)
}

// verify tests a stack with the configuration of AWS, also if AWS throttles it. Its report names neither the account nor a
// resource.
func TestVerify_stack(t *testing.T) {
	l := newLocal(t, "memory", "../../functions/rules.json")
	a := &stackAccount{name: "Weir-dev", throttled: 3}
	a.open(t)
	report := filepath.Join(t.TempDir(), "report.md")
	code, out, errs := weir(t, "verify", "--stack", "Weir-dev", "--url", l.rest.URL, "--wait", "0s", "--all", "--report", report)
	if code != 0 {
		t.Fatalf("got exit %d, stderr %s, want 0\n%s", code, errs, out)
	}
	for _, row := range []string{"table-ttl", "alarm-actions", "drift", "metrics"} {
		if !strings.Contains(out, "pass  "+row+" ") {
			t.Errorf("output: got %s, want %s passed", out, row)
		}
	}
	if !strings.Contains(out, "skip  alarm-arrives ") || slices.Contains(a.calls, "SetAlarmState") {
		t.Errorf("without --write: got %s, want no change", out)
	}
	text := string(templatetest.Read(t, report))
	if !strings.Contains(text, "| `limit-exact` | pass |") || strings.Contains(text, "123456789012") || strings.Contains(text, "127.0.0.1") {
		t.Errorf("report: got %s, want the rows and nothing private", text)
	}
	if code, _, errs := weir(t, "verify", "--stack", "Other"); code != 1 || !strings.Contains(errs, "stack Other in us-east-1: ") {
		t.Errorf("missing stack: got exit %d, %s, want 1 and the stack", code, errs)
	}
	a.name, a.output = "Shop", "http://127.0.0.1:1/prod"
	if code, _, errs := weir(t, "verify", "--stack", "Shop"); code != 2 || !strings.Contains(errs, "/prod looks like production") {
		t.Errorf("a stack with a URL of production: got exit %d, %s, want 2 and the URL", code, errs)
	}
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	for want, args := range map[string][]string{
		"--region: required":              {"--stack", "Weir-dev"},
		"--stack and --template":          {"--stack", "Weir-dev", "--template", "x"},
		"Weir-prod looks like production": {"--stack", "Weir-prod"},
	} {
		if code, _, errs := weir(t, append([]string{"verify"}, args...)...); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%q: got exit %d, %q, want 2 and %q", args, code, errs, want)
		}
	}
}

// The URL in another region is that of the stack of the same name there.
func TestVerify_regions(t *testing.T) {
	l := newLocal(t, "memory", "../../functions/rules.json") // in another folder
	(&stackAccount{name: "Weir-dev", output: l.rest.URL, regions: "us-east-1,eu-central-1"}).open(t)
	_, out, errs := weir(t, "verify", "--stack", "Weir-dev", "--wait", "0s", "--all")
	for _, want := range []string{"skip  regions-limit +the rules have no GET endpoint whose smallest limit regions share", "pass  regions-reached ", "FAIL  regions-tables "} { // the other regions have no counters
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("got %s and stderr %s, want %s", out, errs, want)
		}
	}
}

// No part of an answer can bring a private value into the report.
func TestVerify_private(t *testing.T) {
	secrets := []string{"123456789012", "1234-5678-9012", "AKIAIOSFODNN7EXAMPLE", "a1b2c3d4e5", "203.0.113.77", "2001:db8::8a2e:370:7334", "acmecorp", "bobsmith", "/home/bobsmith", "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"}
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"` + strings.Join(secrets, `","`) + `"}`))
	planted := strings.Join(secrets, " ") + " " + url.QueryEscape(strings.Join(secrets, " ")) + " eyJhbGciOiJub25lIn0." + claims + ".x"
	for _, status := range []int{200, 301, 429, 503} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for _, name := range []string{"RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After", "Content-Type", "Weir-Degraded", "X-Amzn-Requestid", "X-Amz-Apigw-Id", "Server", "Access-Control-Allow-Origin", "X-Bobsmith-Acmecorp", "Location"} {
				w.Header().Set(name, planted)
			}
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"status": %q, "message": %q, "error": %q, %q: %q}`, planted, planted, planted, planted, planted)
		}))
		reported(t, server.URL, secrets)
		server.Close()
		if status == 503 {
			reported(t, server.URL, secrets) // the error names the address
		}
	}
	reported(t, "http://bobsmith.acmecorp.invalid", secrets)
	reported(t, "http://api.store.invalid", nil) // reports contain these ordinary words, so they are no secrets here
}

// reported tests a URL and searches the report and the JSON for secrets and the URL.
func reported(t *testing.T, address string, secrets []string) {
	t.Helper()
	report := filepath.Join(t.TempDir(), "report.md")
	_, out, _ := weir(t, "verify", "--url", address, "--http-url", address, "--wait", "0s", "--report", report, "--json")
	text := out + string(templatetest.Read(t, report))
	for _, secret := range append(secrets, strings.TrimPrefix(address, "http://"), "Bobsmith", "Acmecorp") {
		if strings.Contains(text, secret) {
			t.Errorf("%s: got %q in the report, want nothing private: %s", address, secret, text)
		}
	}
}
