package verify

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/weir-limits/weir/local/verify/redact"
)

// Public returns results without private values: without account ids, names of resources and hosts,
// addresses, credentials and users.
func Public(results []Result) []Result {
	var texts []string
	for _, r := range Rows() {
		texts = append(texts, r.ID, r.Claim, r.Hand)
	}
	private := redact.New(texts...)
	public := make([]Result, len(results))
	for i, r := range results {
		r.Expected, r.Observed = private.Text(r.Expected), private.Text(r.Observed)
		r.Reason, r.Raw = private.Text(r.Reason), private.Text(r.Raw)
		public[i] = r
	}
	return public
}

// Report returns the public form of results as Markdown. version is the version of this program.
func Report(version string, results []Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# A deployment of Weir, tested by weir verify %s\n\n| row | outcome | expected | observed |\n|---|---|---|---|\n", version)
	public := Public(results)
	for _, r := range public {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.Row, r.Outcome, line(r.Expected), line(cmp.Or(r.Observed, r.Reason)))
	}
	for _, r := range public {
		if r.Outcome == Fail {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n\n```\n%s\n```\n", r.Row, r.Claim, strings.ReplaceAll(r.Raw, "`", "'"))
		}
	}
	return b.String()
}

// line returns a text as one cell of a table.
func line(text string) string { return cell(strings.Join(strings.Fields(text), " ")) }
