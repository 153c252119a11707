package ratelimit_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/infra/ratelimit"
)

// alarmsOf returns the properties of a template's alarms, as JSON, by the alarm's name without its prefix.
func alarmsOf(t *testing.T, template []byte) map[string]string {
	t.Helper()
	var made struct {
		Resources map[string]struct {
			Type       string
			Properties map[string]any
		}
	}
	if err := json.Unmarshal(template, &made); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, r := range made.Resources {
		if r.Type != "AWS::CloudWatch::Alarm" {
			continue
		}
		name, ok := r.Properties["AlarmName"].(string)
		if join, joined := r.Properties["AlarmName"].(map[string]any); joined { // weir-, the parameter Namespace and the rest
			name, ok = "weir-test"+join["Fn::Join"].([]any)[1].([]any)[2].(string), true
		}
		if !ok {
			t.Fatalf("alarm: got the name %v, want text", r.Properties["AlarmName"])
		}
		found[strings.TrimPrefix(name, "weir-test/")] = text(t, r.Properties)
	}
	return found
}

// No request is unmatched if a rule matches all. A source of rules can replace such a document.
func TestLimits_alarms_unmatched(t *testing.T) {
	_, stack, _ := newAPI(t)
	for i, tt := range []struct {
		endpoint, method, from string
		want                   bool
	}{{"*", "", "", false}, {"*", "GET", "", true}, {"/orders", "", "", true}, {"*", "", "table", true}} {
		p := props(t)
		p.Namespace, p.RulesFrom = fmt.Sprint("of", i), tt.from
		rules := strings.Replace(document, "/orders", tt.endpoint, 1)
		if tt.method != "" {
			rules = strings.Replace(rules, `"limits"`, `"method": "`+tt.method+`", "limits"`, 1)
		}
		if err := os.WriteFile(p.Rules, []byte(rules), 0o600); err != nil {
			t.Fatal(err)
		}
		l := ratelimit.NewLimits(stack, jsii.String("Limits-"+p.Namespace), p)
		if got := l.Node().TryFindChild(jsii.String("Alarm-unmatched")) != nil; got != tt.want {
			t.Errorf("%+v: got an alarm unmatched: %t, want %t", tt, got, tt.want)
		}
	}
}

// The authorizer waits for a transfer between regions. A percentage needs ten requests.
func TestLimits_alarms_thresholds(t *testing.T) {
	for regions, slow := range map[string]string{"": `"Threshold":250,`, "eu-central-1,us-east-1": `"Threshold":650,`} {
		app, _, _ := newAPI(t)
		stack := awscdk.NewStack(app, jsii.String("Second"), &awscdk.StackProps{Env: &awscdk.Environment{Region: jsii.String("us-east-1"),
			Account: jsii.String("123456789012")}})
		p := props(t)
		p.Namespace = "test"
		if regions != "" {
			p.Regions = strings.Split(regions, ",")
		}
		ratelimit.NewLimits(stack, jsii.String("Limits"), p)
		alarms := alarmsOf(t, []byte(text(t, assertions.Template_FromStack(stack, nil).ToJSON())))
		if !strings.Contains(alarms["authorizer-slow"], slow) {
			t.Errorf("regions %q: got the alarm %s, want %s", regions, alarms["authorizer-slow"], slow)
		}
		for name, least := range map[string]string{"refused": `IF((allowed + refused) \u003e= 10, `,
			"unmatched":         `IF((allowed + refused) \u003e= 10, `,
			"degraded":          `IF((allowed + refused + FILL(unauthorized, 0) + FILL(failed, 0)) \u003e= 10, `,
			"authorizer-errors": `IF((invocations) \u003e= 10, `} {
			if !strings.Contains(alarms[name], least) {
				t.Errorf("%s: got %s, want %s", name, alarms[name], least)
			}
		}
	}
}

// Functions and REST APIs of the same id have alarms of different names, which do not depend on the order of the calls. The
// access logs of several APIs share one alarm.
func TestLimits_alarmNames(t *testing.T) {
	alarms := func(scopes ...string) map[string]string {
		_, l, f := newLayered(t, nil, nil)
		stack := awscdk.Stack_Of(f)
		for _, id := range scopes {
			scope := constructs.NewConstruct(stack, jsii.String(id))
			l.Equip(awslambda.NewFunction(scope, jsii.String("Orders"), &awslambda.FunctionProps{
				Runtime: awslambda.Runtime_PROVIDED_AL2023(), Architecture: awslambda.Architecture_ARM_64(), Handler: jsii.String("bootstrap"),
				Code: awslambda.Code_FromBucketV2(awss3.Bucket_FromBucketName(f, jsii.String(id), jsii.String("code")), jsii.String("orders.zip"), nil),
			}))
			api := awsapigateway.NewRestApi(scope, jsii.String("Api"), &awsapigateway.RestApiProps{RestApiName: jsii.String("of " + id),
				CloudWatchRole: jsii.Bool(false)})
			api.Root().AddMethod(jsii.String("GET"), nil, nil)
			l.Attach(api)
			l.WatchAccessLog(stack, awslogs.NewLogGroup(scope, jsii.String("Access"), nil))
		}
		template := assertions.Template_FromStack(stack, nil)
		template.ResourceCountIs(jsii.String("AWS::Logs::MetricFilter"), jsii.Number(len(scopes)))
		made := alarmsOf(t, []byte(text(t, template.ToJSON())))
		maps.DeleteFunc(made, func(name, _ string) bool {
			return !strings.Contains(name, "orders") && !strings.Contains(name, "api") && name != "authorizer-failed"
		})
		return made
	}
	got, opposite := alarms("Admin", "Shop"), alarms("Shop", "Admin")
	if len(got) != 5 || !maps.Equal(got, opposite) || got["authorizer-failed"] == "" {
		t.Errorf("alarms: got %q, and %q in the opposite order, want the same: one for each function and API, and authorizer-failed", got,
			opposite)
	}
}
