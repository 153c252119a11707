package account

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/local/verify"
)

const tableType = "AWS::DynamoDB::Table"

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// created are the statuses of a stack or a resource that is as in the template.
var created = []string{"CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"}

// cleaning is the status of a stack after an update, while CloudFormation deletes replaced resources.
const cleaning = "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS"

// complete tests that CloudFormation has created every resource.
func (s *Stack) complete(context.Context) (verify.Observation, error) {
	var problems []string
	for _, r := range s.resources {
		if !slices.Contains(created, r.Status) {
			problems = append(problems, r.ID+": "+r.Status)
		}
	}
	if !slices.Contains(created, s.Status) && s.Status != cleaning {
		problems = append(problems, "the stack: "+s.Status)
	}
	return verdict("a complete stack", fmt.Sprintf("%s with %d resources", s.Status, len(s.resources)), problems), nil
}

// Tables implements [verify.Resources].
func (s *Stack) Tables(ctx context.Context) (tables []verify.Table, err error) {
	for _, r := range s.of(tableType) {
		if r.Properties["TimeToLiveSpecification"] == nil {
			continue // the records table
		}
		out, err := s.tables.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &r.Physical})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.ID, err)
		}
		t := verify.Table{Name: r.ID}
		if d := out.TimeToLiveDescription; d != nil && (d.TimeToLiveStatus == types.TimeToLiveStatusEnabled || d.TimeToLiveStatus == types.TimeToLiveStatusEnabling) {
			t.TTL = aws.ToString(d.AttributeName)
		}
		tables = append(tables, t)
	}
	return tables, nil
}
