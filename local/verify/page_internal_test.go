package verify

import (
	"fmt"
	"slices"
	"strings"
)

// Page returns the rows as the Markdown of the documentation: a list of the rows that the command tests, and
// one of those that a person tests. Rows that make the same claim about several URLs share a line.
func Page(rows []Row) string {
	var b, person strings.Builder
	person.WriteString("\nA person tests these:\n\n")
	for i, r := range rows {
		if r.Check == nil {
			fmt.Fprintf(&person, "- `%s`: %s Test: %s\n", r.ID, r.Claim, r.Hand)
			continue
		}
		claim := anyURL(r)
		same := func(o Row) bool { return anyURL(o) == claim }
		if slices.ContainsFunc(rows[:i], same) {
			continue
		}
		ids := []string{r.ID}
		for _, o := range rows[i+1:] {
			if same(o) {
				ids = append(ids, o.ID)
			}
		}
		if len(ids) == 1 {
			claim = r.Claim
		}
		fmt.Fprintf(&b, "- `%s`: %s\n", strings.Join(ids, "`, `"), claim)
	}
	return b.String() + person.String()
}

// anyURL returns the claim of a row without the kind of URL that it is about.
func anyURL(r Row) string {
	claim := r.Claim
	for _, u := range surfaces {
		claim = strings.ReplaceAll(strings.ReplaceAll(claim, string(u.need), "The URL"), u.name, "the API")
	}
	return claim
}
