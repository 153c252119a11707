package boot

import (
	"slices"
	"strings"
	"time"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/rules"
)

// Checked is the result of a check. The fields after Rules are meaningful only if Environment and Rules
// are empty.
type Checked struct {
	// Environment lists the mistakes in the variables, one on each line. It is "" if there are none.
	Environment string
	// Rules lists the mistakes in the rules document, one on each line. It is "" if there are none.
	Rules string
	// Version is the version in the document or, without one, the value of RULES_VERSION. 0
	// means that neither exists.
	Version int64
	// LocalProcesses is the smallest local_processes above 1 in the rules. It is 0 if there is none.
	LocalProcesses int
	// Counts is true if a limit counts what is known only after the answer, except requests in flight. A foreign back end
	// of a REST API then reports to the function contract.Log.
	Counts bool
	// CountsFromLog is true if such a limit counts what the access log of a REST API contains: failures or bytes.
	CountsFromLog bool
	// Refusal is the form of the document's refusals; see rules.Rules.Refusal.
	Refusal string
	// MatchesAll is true if a rule matches every request, so that the metric of requests without a rule is always 0.
	MatchesAll bool
}

// Check reports the mistakes in variables and rules that would prevent a function from starting. It loads the variables
// and parses the rules document in the same way as the function. It opens no connection. If a value of a variable is
// known only after the deployment, put a valid placeholder in its place.
func Check(variables map[string]string, document []byte) (result Checked) {
	c, err := Load(func(name string) (string, bool) {
		value, ok := variables[name]
		if name == "AWS_REGION" && !ok { // Lambda sets it, and all regions have the same mistakes
			value, _, ok = strings.Cut(variables[contract.VariableRegions], ",")
			value = contract.RegionNames([]string{value})[0]
		}
		return value, ok
	})
	if err != nil {
		result.Environment = err.Error()
	}
	o := c.parsing()
	o.Version, o.Now = c.RulesVersion, time.Now()
	r, err := rules.Parse(document, o)
	if err != nil {
		result.Rules = err.Error()
		return result
	}
	result.Version, result.LocalProcesses = r.Version(), r.LocalProcesses()
	result.Refusal = r.Refusal()
	counts := r.Counts()
	result.CountsFromLog = slices.Contains(counts, limiter.CountFailures) || slices.Contains(counts, limiter.CountBytes)
	result.Counts = result.CountsFromLog || slices.Contains(counts, limiter.CountCost)
	for i := range r.Len() {
		endpoint, method := r.Endpoint(i)
		result.MatchesAll = result.MatchesAll || endpoint == "*" && method == ""
	}
	return result
}
