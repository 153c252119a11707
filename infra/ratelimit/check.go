package ratelimit

import (
	"cmp"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/contract"
)

// checkDeployment reports the mistakes in variables and rules with which functions would not start.
func (p *LimitsProps) checkDeployment(want func(ok bool, format string, args ...any)) {
	for name := range p.Variables {
		want(name != contract.VariableLocal && !slices.Contains(contract.Variables(), name),
			"Variables: got %s, want no variable that the construct sets", name)
	}
	var unreadable error
	p.document, unreadable = os.ReadFile(p.Rules)
	p.found = boot.Check(p.known(), p.document)
	want(p.found.Environment == "", "the functions would not start:\n%s", p.found.Environment)
	reserved := p.ReservedConcurrency
	switch least := p.found.LocalProcesses; {
	case unreadable != nil:
		want(false, "Rules: %w", unreadable)
	case p.found.Rules != "":
		want(false, "Rules: %s has mistakes:\n%s", p.Rules, p.found.Rules)
	case p.found.Version == 0 && !p.deployed():
		want(false, "Rules: %s has no version; add one that grows with every change, such as \"version\": 1", p.Rules)
	case reserved != nil && least > 0 && *reserved > float64(least):
		want(false, "ReservedConcurrency: got %v, more than the local_processes %d of %s; raise local_processes to %[1]v, or reserve less. In "+
			"an outage each environment admits a part of the limit", *reserved, least, p.Rules)
	}
}

// known returns the variables of a function as far as they are known at synthesis. A placeholder
// replaces each other value.
func (p *LimitsProps) known() map[string]string {
	all := p.variables()
	maps.Copy(all, p.Variables)
	all[contract.VariableRecordsTable] = "records"
	for name, value := range all {
		if unresolved(value) {
			all[name] = cmp.Or(placeholders[name], "parameter")
		}
	}
	all[contract.VariableStore] = contract.StoreDynamoDB + "counters"
	if p.Store == ElastiCache {
		all[contract.VariableStore] = "rediss://cache:6379"
	}
	return all
}

// placeholders are valid values for variables whose value is known only in the deployment. Other variables accept any text.
var placeholders = map[string]string{
	contract.VariableJWKS:              "https://issuer.invalid/keys",
	contract.VariableCORSOrigins:       "https://origin.invalid",
	contract.VariableBasePath:          "/path",
	contract.VariableRequireCredential: "true",
	contract.VariableForeignAPIKeys:    contract.ForeignKeysIgnored,
	contract.VariableJWTAlgorithms:     "RS256",
	contract.VariableIdentity:          contract.IdentityWeir,
	contract.VariableClaims:            "name=path",
	contract.VariableAddress:           contract.AddressCloudFront,
	contract.VariableOriginSecret:      strings.Repeat("x", contract.MinOriginSecret),
	contract.VariableSecretBefore:      strings.Repeat("x", contract.MinOriginSecret),
}
