package ratelimit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/weir-limits/weir/functions/contract"
)

// checkDeployment reports the mistakes in the variables and the rules that would prevent the functions
// from starting.
func (p *LimitsProps) checkDeployment() (problems []error) {
	problem := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("ratelimit: "+format, args...))
	}
	for name, value := range p.Variables {
		if name == contract.VariableRequireCredential && unresolved(value) {
			continue // the property is a bool, which cannot be a parameter
		}
		if name == contract.VariableLocal || slices.Contains(contract.Variables(), name) {
			problem("Variables: got %s, want no variable that the construct sets", name)
		}
	}
	document, unreadable := os.ReadFile(p.Rules)
	if unreadable != nil {
		problem("Rules: %w", unreadable)
	}
	result, err := check(contract.Deployment{Variables: p.known(), Rules: document})
	if err != nil {
		problem("%w", err)
		return problems
	}
	if result.Environment != "" {
		problem("the functions would not start:\n%s", result.Environment)
	}
	reserved := p.ReservedConcurrency
	switch least := result.LocalProcesses; {
	case unreadable != nil:
	case result.Rules != "":
		problem("Rules: %s has mistakes:\n%s", p.Rules, result.Rules)
	case result.Version == 0:
		problem("Rules: %s has no version; add one that grows with every change, such as \"version\": 1, or set RulesVersion", p.Rules)
	case reserved != nil && least > 0 && *reserved > float64(least):
		problem("ReservedConcurrency: got %v, more than the local_processes %d of %s; raise local_processes to %[1]v, or reserve less. In an outage each environment admits a part of the limit", *reserved, least, p.Rules)
	}
	return problems
}

// known returns the variables of a function before the deployment. A value that is known only after the
// deployment is replaced by a placeholder.
func (p *LimitsProps) known() map[string]string {
	all := p.variables()
	maps.Copy(all, p.Variables)
	maps.Copy(all, p.Events.known())
	all[contract.VariableRecordsTable] = "records"
	for name, value := range all {
		if unresolved(value) {
			all[name] = placeholder(name)
		}
	}
	if p.Store == ElastiCache {
		all[contract.VariableStore], all[contract.VariableRedisURL] = contract.StoreRedis, "rediss://cache:6379"
	} else {
		all[contract.VariableStore], all[contract.VariableTable] = contract.StoreDynamoDB, "counters"
	}
	return all
}

// placeholder returns a valid value of a variable that is a parameter of the template.
func placeholder(variable string) string {
	switch variable {
	case contract.VariableJWKS:
		return "https://issuer.invalid/keys"
	case contract.VariableCORSOrigins:
		return "https://origin.invalid"
	case contract.VariableBasePath:
		return "/path"
	case contract.VariableRequireCredential:
		return "true"
	}
	return "parameter"
}

// checked caches the results of check by input, because the stages and regions of an app often have the
// same input.
var checked sync.Map

// check runs the functions' check as a separate program, because a CDK app does not link the limiter.
// The program is from the same version of the module as this package.
func check(d contract.Deployment) (result contract.Checked, err error) {
	input, err := json.Marshal(d)
	if err != nil {
		return result, fmt.Errorf("check: %w", err)
	}
	if before, ok := checked.Load(string(input)); ok {
		return before.(contract.Checked), nil
	}
	c := exec.CommandContext(context.Background(), "go", "run", contract.CheckProgram) // the constructor of a construct has no context
	c.Stdin = bytes.NewReader(input)
	c.Env = append(os.Environ(), "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH) // build for this machine, not for the platform of the functions
	output, err := c.Output()
	if err == nil {
		err = json.Unmarshal(output, &result)
	}
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(failed.Stderr)))
	}
	if err != nil {
		return result, fmt.Errorf("check: `go run %s` failed: %w; build the functions first, because their build also downloads the modules of this program", contract.CheckProgram, err)
	}
	checked.Store(string(input), result)
	return result, nil
}
