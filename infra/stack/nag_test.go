package stack_test

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"

	"github.com/weir-limits/weir/infra/stack"
)

// exception is a finding of cdk-nag that is no mistake.
type exception struct {
	rule, path string // path of the construct below the stack
	variants   string // names of all variants with the finding; empty means every variant
	reason     string
}

const (
	withTable  = "dynamodb kafka regions regions-two"
	withCache  = "elasticache everything"
	pushToLogs = "IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AmazonAPIGatewayPushToCloudWatchLogs]"
	onNetworks = "actions of networks support no resources; TestStack_privilege names them"
)

var exceptions = []exception{
	{"APIG2", "Rest/Resource", "", "the handler validates requests"},
	{"APIG3", "Rest/DeploymentStage.dev/Resource", withTable + " elasticache", "the setting waf adds a web ACL, which costs"},
	{"APIG6", "Rest/DeploymentStage.dev/Resource", "", "the access log has a line for each request; execution logs would contain tokens"},
	{"DDB3", "Limits/Counters/Resource", withTable, "counters are useless after their windows"},
	{"VPC7", "Limits/Vpc/Resource", withCache, "functions in the network reach only the cache and one table, which authenticate them"},
	{pushToLogs, "Rest/CloudWatchRole/Resource", "everything", "AWS defines the policy of the role for API Gateway's logs"},
	{"IAM5[Resource::*]", "Limits/AuthorizerRole/DefaultPolicy/Resource", withCache, onNetworks},
	{"IAM5[Resource::*]", "Limits/HandlerRole/DefaultPolicy/Resource", withCache, onNetworks},
	{"IAM5[Resource::*]", "Limits/LogRole/DefaultPolicy/Resource", "kafka", onNetworks},
}

// accepted returns the findings of a variant that are no mistakes, sorted. A method of the REST API without an authorizer,
// whose finding is APIG4, is a mistake.
func accepted(t *testing.T, variant string) (all []string) {
	t.Helper()
	for _, e := range exceptions {
		if slices.Contains(strings.Fields(cmp.Or(e.variants, variant)), variant) {
			all = append(all, e.rule+" "+e.path)
		}
	}
	routes, err := os.ReadFile("routes.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(routes)) {
		method, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		all = append(all, "COG4 Rest/Default"+path+"/"+method+"/Resource", // the authorizer is the limiter, which verifies tokens and keys
			// An authorizer of an HTTP API cannot answer 429, so the handler authenticates and limits.
			"APIG4 Http/"+method+strings.ReplaceAll(path, "/", "--")+"/Resource")
	}
	slices.Sort(all)
	return all
}

var finding = regexp.MustCompile(`AwsSolutions-([A-Z]+[0-9]+(?:\[[^]]+\])?)`)

// cdk-nag reports exactly the accepted findings of each variant, and the CDK reports nothing.
func TestNag(t *testing.T) {
	for variant, change := range variants {
		a := cdkApp(t)
		made := stack.New(a, settings(t, change))
		awscdk.Aspects_Of(a).Add(cdknag.NewAwsSolutionsChecks(&cdknag.NagPackProps{Verbose: jsii.Bool(true), Reports: jsii.Bool(false)}), nil)
		a.Synth(nil)
		reported, each := assertions.Annotations_FromStack(made), assertions.Match_AnyValue()
		var got []string
		for _, m := range slices.Concat(*reported.FindError(jsii.String("*"), each), *reported.FindWarning(jsii.String("*"), each)) {
			line := fmt.Sprint(m.Entry.Data)                               //nolint:staticcheck // assertions has no other type
			path := strings.TrimPrefix(*m.Id, "/"+*made.Node().Path()+"/") //nolint:staticcheck // as above
			got = append(got, append(finding.FindStringSubmatch(line), line, line)[1]+" "+path)
		}
		slices.Sort(got)
		if want := accepted(t, variant); !slices.Equal(slices.Compact(got), want) {
			t.Errorf("%s: got the findings\n%s\nwant\n%s", variant, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
