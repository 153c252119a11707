package account

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/weir-limits/weir/local/verify"
)

// driftReads is the maximum number of reads of the status of a drift detection, driftPause apart. A detection takes
// minutes.
const (
	driftReads = 120
	driftPause = 5 * time.Second
)

// compared are the types whose properties only drift detection compares with the template. A result that lacks one of
// these resources proves nothing about it.
//
// CloudFormation compares the types whose schema in its registry has a read handler. Of the types in infra/golden, these
// are all but AWS::IAM::Policy, AWS::SNS::TopicPolicy and custom resources (schemas of August 2026). The table "Resource
// type support" in the CloudFormation User Guide can be wrong: it has AWS::IAM::Policy and AWS::EC2::VPCEndpoint, for
// which users get no result (issues 1686 and 1958 of aws-cloudformation/cloudformation-coverage-roadmap).
//
// A comparison leaves out properties that the template does not set, properties that a service does not return (such as
// the code of a function), and policies that somebody added to a role (issues 936 and 2489). It can report a default in a
// list as a difference. The source is "Considerations when detecting drift" in the same guide.
var compared = []string{
	alarmType, authorizerType, functionType, httpStageType, metricFilterType, stageType, subscriptionType, tableType,
	"AWS::ApiGateway::GatewayResponse", "AWS::ApiGateway::Method", "AWS::CloudFront::Distribution", "AWS::CloudFront::Function", "AWS::CloudWatch::InsightRule", "AWS::Lambda::Permission",
	"AWS::WAFv2::WebACL", "AWS::WAFv2::WebACLAssociation",
}

const tableType = "AWS::DynamoDB::Table"

// drift makes CloudFormation compare the resources with the template.
func (s *Stack) drift(ctx context.Context) (o verify.Observation) {
	fmt.Fprintf(s.Log, "waiting at most %s: CloudFormation compares the resources of the stack with its template\n", driftReads*driftPause)
	started, err := s.formation.DetectStackDrift(ctx, &cloudformation.DetectStackDriftInput{StackName: &s.Name})
	if !s.keep(err) {
		return o
	}
	ended := s.awaitDrift(ctx, started.StackDriftDetectionId)
	if s.err != nil {
		return o
	}
	if ended.DetectionStatus == types.StackDriftDetectionStatusDetectionInProgress {
		return skipped(fmt.Sprintf("the drift detection did not end within %s; run again later", driftReads*driftPause))
	}
	done, problems := s.differences(ctx, aws.ToTime(ended.Timestamp))
	var left []string
	for _, r := range s.resources {
		if slices.Contains(compared, r.Type) && !slices.Contains(done, r.ID) {
			left = append(left, r.ID+" ("+r.Type+")")
		}
	}
	if len(problems) == 0 && len(left) > 0 {
		reason := fmt.Sprintf("CloudFormation found no difference in %d resources, but did not compare %s; compare them by hand", len(done), strings.Join(left, ", "))
		if why := aws.ToString(ended.DetectionStatusReason); why != "" {
			reason += ": " + why
		}
		return skipped(reason)
	}
	return verdict("no difference between the resources and the template", fmt.Sprintf("%d of %d resources compared", len(done), len(s.resources)), problems)
}

// awaitDrift waits until a drift detection has ended. If it does not end, the status in the answer is in progress.
func (s *Stack) awaitDrift(ctx context.Context, id *string) (out *cloudformation.DescribeStackDriftDetectionStatusOutput) {
	for range driftReads {
		var err error
		out, err = s.formation.DescribeStackDriftDetectionStatus(ctx, &cloudformation.DescribeStackDriftDetectionStatusInput{StackDriftDetectionId: id})
		if !s.keep(err) || out.DetectionStatus != types.StackDriftDetectionStatusDetectionInProgress || !s.pause(ctx, driftPause) {
			break
		}
	}
	return out
}

// differences returns the resources that CloudFormation has compared since a time, and their differences.
func (s *Stack) differences(ctx context.Context, since time.Time) (done, problems []string) {
	pages := cloudformation.NewDescribeStackResourceDriftsPaginator(s.formation, &cloudformation.DescribeStackResourceDriftsInput{StackName: &s.Name})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if !s.keep(err) {
			return nil, nil
		}
		for _, r := range page.StackResourceDrifts {
			id := aws.ToString(r.LogicalResourceId)
			switch {
			case aws.ToTime(r.Timestamp).Before(since): // a result of an earlier detection
				continue
			case r.StackResourceDriftStatus == types.StackResourceDriftStatusDeleted:
				problems = append(problems, id+": deleted")
			case r.StackResourceDriftStatus == types.StackResourceDriftStatusModified:
				for _, d := range r.PropertyDifferences {
					problems = append(problems, id+": "+difference(d))
				}
			case r.StackResourceDriftStatus != types.StackResourceDriftStatusInSync: // unknown or unsupported
				continue
			}
			done = append(done, id)
		}
	}
	return done, problems
}

// difference describes a difference. The origins of a distribution contain the secret with which it proves itself.
func difference(d types.PropertyDifference) string {
	path := aws.ToString(d.PropertyPath)
	if strings.HasPrefix(path, "/DistributionConfig/Origins") {
		return path + ": differs; the values are not shown, because they can contain the secret of the distribution"
	}
	return fmt.Sprintf("%s: got %s, want %s", path, aws.ToString(d.ActualValue), aws.ToString(d.ExpectedValue))
}
