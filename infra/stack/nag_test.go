package stack_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"

	"github.com/weir-limits/weir/infra/stack"
)

// cdk-nag reports nothing but the findings that Excuse suppresses with a reason.
func TestNag(t *testing.T) {
	changes := maps.Clone(golden)
	changes["forwarding"] = forwarding
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			a := cdkApp(t)
			made := stack.New(a, settings(t, change))
			awscdk.Aspects_Of(a).Add(cdknag.NewAwsSolutionsChecks(&cdknag.NagPackProps{Verbose: jsii.Bool(true)}), nil)
			found := assertions.Annotations_FromStack(made)
			all := jsii.String("*")
			for _, m := range slices.Concat(*found.FindError(all, assertions.Match_AnyValue()), *found.FindWarning(all, assertions.Match_AnyValue())) {
				t.Error(text(t, m))
			}
		})
	}
}
