package stack_test

import (
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/aws-cdk-go/awscdk/v2/cxapi"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"

	"github.com/weir-limits/weir/infra/stack"
)

// The AWS Solutions rules find nothing that is not suppressed by name, with a reason.
func TestNag(t *testing.T) {
	for name, change := range golden {
		t.Run(name, func(t *testing.T) {
			a := cdkApp(t)
			made := stack.New(a, settings(t, change))
			awscdk.Aspects_Of(a).Add(cdknag.NewAwsSolutionsChecks(&cdknag.NagPackProps{Verbose: jsii.Bool(true)}), nil)
			found := assertions.Annotations_FromStack(made)
			for _, level := range []*[]*cxapi.SynthesisMessage{
				found.FindError(jsii.String("*"), assertions.Match_AnyValue()), found.FindWarning(jsii.String("*"), assertions.Match_AnyValue()),
			} {
				for _, m := range *level {
					t.Errorf("%s: %v", *m.Id, m.Entry.Data)
				}
			}
		})
	}
}
