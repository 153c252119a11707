package account

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/weir-limits/weir/local/verify"
)

const tableType = "AWS::DynamoDB::Table"

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// created are the statuses of a stack or a resource that is as in the template.
var created = []string{"CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"}

// cleaning is the status of a stack after an update, while CloudFormation deletes replaced resources.
const cleaning = "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS"

// complete tests that CloudFormation has created every resource.
func (s *Stack) complete(context.Context) verify.Observation {
	var problems []string
	for _, r := range s.resources {
		if !slices.Contains(created, r.Status) {
			problems = append(problems, r.ID+": "+r.Status)
		}
	}
	if !slices.Contains(created, s.Status) && s.Status != cleaning {
		problems = append(problems, "the stack: "+s.Status)
	}
	return verdict("a complete stack", fmt.Sprintf("%s with %d resources", s.Status, len(s.resources)), problems)
}
