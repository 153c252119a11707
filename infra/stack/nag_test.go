package stack_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"

	"github.com/weir-limits/weir/infra/stack"
)

// accepted are the findings of cdk-nag that are no mistakes, with the reason.
var accepted = map[string]string{
	"APIG2":             "the handler validates requests",
	"APIG3":             "the setting waf adds a web ACL, which costs",
	"APIG4":             "an authorizer of an HTTP API cannot answer 429, so the handler authenticates and limits",
	"APIG6":             "the access log has a line for each request; execution logs would contain tokens",
	"COG4":              "the authorizer is the limiter, which verifies tokens and keys",
	"DDB3":              "counters are useless after their windows",
	"VPC7":              "functions in the network reach only the cache and one table, which authenticate them",
	"IAM4":              "AWS defines the policy of the role for API Gateway's logs",
	"IAM5[Resource::*]": "actions of networks support no resources; TestStack_privilege names them",
}

var finding = regexp.MustCompile(`AwsSolutions-([A-Z]+[0-9]+(?:\[Resource[^]]+\])?)`)

// cdk-nag reports nothing but the accepted findings, and each of them in some stack. The CDK reports nothing.
func TestNag(t *testing.T) {
	found := map[string]bool{}
	for _, change := range []func(*stack.Settings){everything, toKafka} {
		a := cdkApp(t)
		made := stack.New(a, settings(t, change))
		awscdk.Aspects_Of(a).Add(cdknag.NewAwsSolutionsChecks(&cdknag.NagPackProps{Verbose: jsii.Bool(true), Reports: jsii.Bool(false)}), nil)
		a.Synth(nil)
		all, each := assertions.Annotations_FromStack(made), assertions.Match_AnyValue()
		for _, m := range slices.Concat(*all.FindError(jsii.String("*"), each), *all.FindWarning(jsii.String("*"), each)) {
			line := fmt.Sprint(m.Entry.Data) //nolint:staticcheck // assertions has no other type
			name := append(finding.FindStringSubmatch(line), "", "")[1]
			found[name] = true
			if accepted[name] == "" {
				t.Errorf("got %s, want no such finding", line)
			}
		}
	}
	for name := range maps.Keys(accepted) {
		if !found[name] {
			t.Errorf("%s: got no such finding, want it, or no line in accepted", name)
		}
	}
}
