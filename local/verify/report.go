package verify

import (
	"cmp"
	"fmt"
	"strings"
)

// Public returns results without private values: without account ids, names of resources and hosts,
// addresses, credentials and users. hosts are the hosts of the deployment, which can consist of public words.
func Public(results []Result, hosts ...string) []Result {
	var texts []string
	for _, r := range Rows() {
		texts = append(texts, r.ID, r.Claim, r.Hand)
	}
	redact := newRedactor(texts...)
	private := func(text string) string {
		for _, host := range hosts {
			text = strings.ReplaceAll(text, host, removed)
		}
		return redact.text(text)
	}
	public := make([]Result, len(results))
	for i, r := range results {
		r.Expected, r.Observed = private(r.Expected), private(r.Observed)
		r.Warning, r.Reason, r.Raw = private(r.Warning), private(r.Reason), private(r.Raw)
		public[i] = r
	}
	return public
}

// Report returns the public form of results as Markdown. version is the version of this program, and hosts are the
// hosts of [Public].
func Report(version string, results []Result, hosts ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# A deployment of Weir, tested by weir verify %s\n\n| row | outcome | expected | observed |\n|---|---|---|---|\n", version)
	public := Public(results, hosts...)
	for _, r := range public {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.Row, r.Outcome, line(r.Expected), line(cmp.Or(r.Noted(), r.Reason)))
	}
	for _, r := range public {
		if r.Outcome == Fail {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n\n```\n%s\n```\n", r.Row, r.Claim, strings.ReplaceAll(r.Raw, "`", "'"))
		}
	}
	return b.String()
}

func line(text string) string { return cell(strings.Join(strings.Fields(text), " ")) }

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
