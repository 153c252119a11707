package verify

import (
	"fmt"
	"strings"
)

// Page returns the table of rows as Markdown.
func Page(rows []Row) string {
	var b strings.Builder
	b.WriteString("| row | must be true | needs | requests | test by hand |\n|---|---|---|---|---|\n")
	for _, r := range rows {
		var needs []string
		for _, n := range r.Needs {
			needs = append(needs, string(n))
		}
		cost := "–"
		if r.Check != nil {
			cost = r.Cost.String()
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", r.ID, cell(r.Claim), strings.Join(needs, ", "), cost, cell(r.Hand))
	}
	return b.String()
}

// cell escapes the text of a cell.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
