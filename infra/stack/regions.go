package stack

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-limits/weir/functions/contract"
)

// NotDeployed is the only element of [Settings].Deployed before the first deployment.
const NotDeployed = "none"

// RecordsName returns the name of the records table that a stack of several regions creates.
func (s *Settings) RecordsName() string { return "weir-" + s.Namespace + "-records" }

// follows returns "" if a stack with the list of regions Deployed can become one with Regions, a different list, and otherwise what
// it can become. CloudFormation adds or removes one replica of a table an update, and a region moves only without share.
func (s *Settings) follows() string {
	was, is := contract.RegionNames(s.Deployed), contract.RegionNames(s.Regions)
	if len(was) == 1 || is == nil {
		if len(was) == 1 && is == nil || s.Records != "" {
			return ""
		}
		return "also recordsTable, the records table of the deployed stack (" + strings.Join(s.Deployed, ",") + "), because a deployment " +
			"between one region and several creates another table; see Regions in infra/OPERATIONS.md"
	}
	last, first := contract.ListNumber(s.Deployed[0])
	number, _ := contract.ListNumber(s.Regions[0])
	wanted := strings.TrimPrefix(strings.Join(s.Regions, ","), fmt.Sprint(number, ":"))
	switch change := s.step(was, is); {
	case is[0] != first:
		return first + " first: it has the records, so it cannot leave its place"
	case number <= last:
		return fmt.Sprintf("a number above %d before the list, such as %d:%s, because states of the deployed list %s would not be converted",
			last, last+1, wanted, strings.Join(s.Deployed, ","))
	case change != "":
		return fmt.Sprintf("first %d: and the deployed list %s %s: one region joins or leaves a deployment, and only without share; then wait "+
			"as Regions in infra/OPERATIONS.md says, and make the next change", last+1, strings.Join(s.Deployed, ","), change)
	}
	return ""
}

// step returns the change of the deployed list to make before that to Regions. It is "" if Regions can be deployed: at most one region
// joins or leaves, and it has no share.
func (s *Settings) step(was, is []string) string {
	joins := slices.DeleteFunc(slices.Clone(is), func(name string) bool { return slices.Contains(was, name) })
	leaves := slices.DeleteFunc(slices.Clone(was), func(name string) bool { return slices.Contains(is, name) })
	moved := slices.Concat(joins, leaves)
	if len(moved) == 0 {
		return ""
	}
	without := moved[0] + contract.WithoutShare
	leaving := slices.Contains(s.Deployed, without)
	switch {
	case len(moved) == 1 && (leaving || slices.Contains(s.Regions, without)):
		return ""
	case leaving:
		return "without " + moved[0]
	}
	return "with " + without
}
