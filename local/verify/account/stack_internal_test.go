package account

import (
	"slices"
	"testing"

	"github.com/weir-limits/weir/local/verify"
)

// A stack is complete only if its status, and the status of each resource, reports a success.
func TestStack_complete(t *testing.T) {
	resource := []string{"CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"}
	stack := append(slices.Clone(resource), "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
	for _, status := range []string{
		"CREATE_COMPLETE", "CREATE_FAILED", "CREATE_IN_PROGRESS", "DELETE_COMPLETE", "DELETE_FAILED", "DELETE_IN_PROGRESS", "DELETE_SKIPPED", "EXPORT_COMPLETE",
		"IMPORT_COMPLETE", "IMPORT_IN_PROGRESS", "IMPORT_ROLLBACK_COMPLETE", "IMPORT_ROLLBACK_FAILED", "IMPORT_ROLLBACK_IN_PROGRESS", "REVIEW_IN_PROGRESS",
		"ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "ROLLBACK_IN_PROGRESS", "UPDATE_COMPLETE", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", "UPDATE_FAILED", "UPDATE_IN_PROGRESS",
		"UPDATE_ROLLBACK_COMPLETE", "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS", "UPDATE_ROLLBACK_FAILED", "UPDATE_ROLLBACK_IN_PROGRESS", "",
	} {
		for name, c := range map[string]struct {
			stack, resource string
			passes          []string
		}{
			"stack":    {status, "CREATE_COMPLETE", stack},
			"resource": {"CREATE_COMPLETE", status, resource},
		} {
			s := &Stack{Status: c.stack, resources: []Resource{{ID: "Table", Status: c.resource}}}
			o := s.complete(t.Context())
			want := verify.Fail
			if slices.Contains(c.passes, status) {
				want = verify.Pass
			}
			if o.Outcome != want {
				t.Errorf("%s with %q: got %s, want %s", name, status, o.Outcome, want)
			}
		}
	}
}
