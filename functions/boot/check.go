package boot

import (
	"slices"
	"time"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/rules"
)

// Check reports the mistakes in d that would prevent a function from starting. It loads the variables
// and parses the rules in the same way as the function. It opens no connection.
func Check(d contract.Deployment) (result contract.Checked) {
	c, err := Load(func(name string) (string, bool) {
		value, ok := d.Variables[name]
		return value, ok
	})
	if err != nil {
		result.Environment = err.Error()
	}
	o := c.parsing()
	o.Version, o.Now = c.RulesVersion, time.Now()
	r, err := rules.Parse(d.Rules, o)
	if err != nil {
		result.Rules = err.Error()
		return result
	}
	result.SimilarTiers = r.SimilarTiers().Error()
	result.Version, result.LocalProcesses = r.Version(), r.LocalProcesses()
	counts := r.Counts()
	result.Settles = len(counts) > 0
	result.SettlesFromLog = slices.ContainsFunc(counts, func(c limiter.Counted) bool { return c != limiter.CountCost })
	for i := range r.Len() {
		endpoint, method := r.Endpoint(i)
		result.MatchesAll = result.MatchesAll || endpoint == "*" && method == ""
	}
	return result
}
