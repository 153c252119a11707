package stack_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/dynamostore"
)

// The operator's policy of a release permits exactly the calls of the commands on the tables. Tests of the packages that
// make the calls compare them with the same lists.
func TestOperator_policy(t *testing.T) {
	content, err := os.ReadFile("../policies/operator.json")
	if err != nil {
		t.Fatal(err)
	}
	var policy struct {
		Statement []struct {
			Action   []string
			Resource any
		}
	}
	if err := json.Unmarshal(content, &policy); err != nil {
		t.Fatal(err)
	}
	if len(content) > 6144 {
		t.Errorf("got %d bytes, want at most 6144, the limit of IAM for a managed policy", len(content))
	}
	for table, want := range map[string][]string{
		"LimitsRecords":  slices.Concat(contract.KeyActions(), contract.RulesActions(), contract.RecordActions()),
		"LimitsCounters": dynamostore.AdministrationActions(),
	} {
		var got []string
		for _, s := range policy.Statement {
			if resource, ok := s.Resource.(string); ok && strings.HasSuffix(resource, "table/STACK-*"+table+"*") {
				got = append(got, s.Action...)
			}
		}
		slices.Sort(want)
		want = slices.Compact(want)
		if !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			t.Errorf("%s: got the actions %v, want %v", table, got, want)
		}
	}
}
