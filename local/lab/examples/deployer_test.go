package examples_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/storetest"
)

// unneeded are actions in CloudFormation's schemas for properties that the template does not set.
var unneeded = []string{
	"*:*DataProtectionPolicy", "*:*ResourcePolicy", "*:*ResourcePolicies", "dynamodb:*Item", "dynamodb:*KinesisStreamingDestination",
	"dynamodb:*Replica", "dynamodb:ImportTable", "dynamodb:Query", "dynamodb:Scan",
	"dynamodb:UpdateContributorInsights", "ec2:*VpcEncryptionControl", "ec2:ModifyVpcTenancy", "elasticache:ModifyReplicationGroup",
	"elasticfilesystem:*", "events:PutPermission", "firehose:*",
	"iam:*Group*Policy", "iam:*User*Policy", "kinesis:*", "kms:ListAliases", "lambda:AssociateRuntimeAlias", "lambda:PassCapacityProvider",
	"lambda:PublishVersion",
	"logs:*IndexPolic*", "logs:CreateLogDelivery", "logs:*LogStream", "logs:PutBearerTokenAuthentication", "logs:PutLogEvents",
	"logs:PutLogGroupDeletionProtection", "s3:GetObjectMetadata", "s3:REST.PUT.OBJECT", "s3files:*", "vpc-lattice:*", "vpce:*",
}

// The deployer's policy of a release has each action that CloudFormation's schemas name for the template's resources,
// except the unneeded ones.
func TestExamples_deployer(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), filepath.Join(storetest.Server(t, "tools", "WEIR_TOOLS"), "python"),
		"../../../infra/tools/deployer_actions.py", "../../../infra/standalone/weir.template.json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var policy struct{ Statement []struct{ Action any } }
	if err := json.Unmarshal(storetest.Must(os.ReadFile("../../../infra/policies/deployer.json")), &policy); err != nil {
		t.Fatal(err)
	}
	var allowed []string
	for _, s := range policy.Statement {
		switch action := s.Action.(type) {
		case string:
			allowed = append(allowed, action)
		case []any:
			for _, each := range action {
				allowed = append(allowed, each.(string))
			}
		}
	}
	matches := func(patterns []string, action string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool { ok, _ := path.Match(pattern, action); return ok })
	}
	for action := range strings.FieldsSeq(string(out)) {
		if !matches(allowed, action) && !matches(unneeded, action) {
			t.Errorf("%s: got no statement that permits it, want one, or an entry in unneeded", action)
		}
	}
}
