package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	watch "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"github.com/weir-limits/weir/local/gateway/template/templatetest"
	"github.com/weir-limits/weir/local/verify/account/accounttest"
)

// verify tests a stack with the configuration of AWS. Its report names neither the account nor a resource.
func TestVerify_stack(t *testing.T) {
	c := accounttest.Start(t)
	var template map[string]any
	if err := json.Unmarshal(templatetest.Read(t, "../../infra/golden/dynamodb.template.json"), &template); err != nil {
		t.Fatal(err)
	}
	template["Outputs"] = map[string]any{} // nothing serves the URLs of the emulated stack
	document, err := json.Marshal(template)
	if err != nil {
		t.Fatal(err)
	}
	c.Deploy(t, "Weir-dev", document, nil)
	client := cloudwatch.NewFromConfig(c.Config(), accounttest.Query)
	for _, name := range []string{"Allowed", "Refused"} {
		if _, err := client.PutMetricData(t.Context(), &cloudwatch.PutMetricDataInput{
			Namespace: aws.String("Weir/dev"), MetricData: []watch.MetricDatum{{MetricName: &name, Value: aws.Float64(1), Timestamp: aws.Time(time.Now())}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	l := newLocal(t, "memory", "../../functions/rules.json")
	for name, value := range c.Environment() {
		t.Setenv(name, value)
	}
	throttled := 0
	c.OnCall(func(action string) string {
		if action == "ListMetrics" { // the command would wait minutes for the metrics of alarms
			return "AccessDenied"
		}
		if throttled == 3 || action != "DescribeStacks" {
			return ""
		}
		throttled++
		return "Throttling"
	})
	report := filepath.Join(t.TempDir(), "report.md")
	code, out, errs := weir(t, "verify", "--stack", "Weir-dev", "--url", l.rest.URL, "--wait", "0s", "--all", "--report", report)
	if code != 0 {
		t.Fatalf("got exit %d, stderr %s, want 0\n%s", code, errs, out)
	}
	for _, row := range []string{"table-ttl", "alarm-actions", "drift", "role-permissions", "metrics"} {
		if !strings.Contains(out, "pass  "+row+" ") {
			t.Errorf("output: got %s, want %s passed", out, row)
		}
	}
	if !strings.Contains(out, "skip  alarm-arrives ") || c.Called("SetAlarmState") > 0 {
		t.Errorf("without --write: got %s, want no change", out)
	}
	text := string(templatetest.Read(t, report))
	if !strings.Contains(text, "| `limit-exact` | pass |") || strings.Contains(text, "123456789012") || strings.Contains(text, "127.0.0.1") {
		t.Errorf("report: got %s, want the rows and nothing private", text)
	}
	if code, _, errs := weir(t, "verify", "--stack", "Other"); code != 1 || !strings.Contains(errs, "stack Other in us-east-1: ") {
		t.Errorf("missing stack: got exit %d, %s, want 1 and the stack", code, errs)
	}
	template["Outputs"] = map[string]any{"RestUrl": map[string]any{"Value": "http://127.0.0.1:1/prod"}}
	if document, err = json.Marshal(template); err != nil {
		t.Fatal(err)
	}
	c.Deploy(t, "Shop", []byte(strings.ReplaceAll(string(document), "weir-dev", "weir-shop")), nil)
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
	c := accounttest.Start(t)
	var template map[string]any
	if err := json.Unmarshal(templatetest.Read(t, "../../infra/golden/regions.template.json"), &template); err != nil {
		t.Fatal(err)
	}
	l := newLocal(t, "memory", "../../functions/rules.json") // in another folder
	template["Outputs"] = map[string]any{"RestUrl": map[string]any{"Value": l.rest.URL}}
	document, err := json.Marshal(template)
	if err != nil {
		t.Fatal(err)
	}
	c.Deploy(t, "Weir-dev", document, nil)
	c.Deny("ListMetrics") // the command would wait minutes for the metrics of alarms
	client := cloudwatch.NewFromConfig(c.Config(), accounttest.Query)
	for _, name := range []string{"Allowed", "RegionCalls"} {
		if _, err := client.PutMetricData(t.Context(), &cloudwatch.PutMetricDataInput{
			Namespace: aws.String("Weir/dev"), MetricData: []watch.MetricDatum{{MetricName: &name, Value: aws.Float64(1), Timestamp: aws.Time(time.Now())}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range c.Environment() {
		t.Setenv(name, value)
	}
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
	for _, status := range []int{200, 301, 401, 403, 429, 500, 503} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for _, name := range []string{"RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After", "Content-Type", "Weir-Degraded", "X-Amzn-Requestid", "X-Amz-Apigw-Id", "Server", "Access-Control-Allow-Origin", "X-Bobsmith-Acmecorp", "Location"} {
				w.Header().Set(name, planted)
			}
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"status": %q, "message": %q, "error": %q, %q: %q}`, planted, planted, planted, planted, planted)
		}))
		reported(t, server.URL, secrets)
		server.Close()
		reported(t, server.URL, secrets) // the error names the address
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
