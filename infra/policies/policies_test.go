// Package policies_test evaluates the policies of the golden templates with a policy simulator.
package policies_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/storetest"
)

// call is a call of DynamoDB, as policies see it.
type call struct {
	Action string   `json:"action"`
	Table  string   `json:"table"`          // the ARN
	Keys   []string `json:"keys,omitempty"` // the leading keys
}

func (c call) String() string { return fmt.Sprintf("%s of %q in %s", c.Action, c.Keys, c.Table) }

func (c call) equal(o call) bool {
	return c.Action == o.Action && c.Table == o.Table && slices.Equal(c.Keys, o.Keys)
}

// Each function can make the calls that it makes, and no similar call.
func TestPolicies(t *testing.T) {
	storetest.Program(t, "node")
	if _, err := os.Stat("node_modules/@cloud-copilot/iam-simulate"); errors.Is(err, fs.ErrNotExist) {
		storetest.Unfetched(t, "node", "make test-examples", err)
	}
	for _, name := range []string{"dynamodb", "elasticache", "everything", "kafka", "settlement"} {
		t.Run(name, func(t *testing.T) {
			golden := parse(t, "../golden/"+name+".template.json")
			recorded := golden.record(t)
			for function := range recorded {
				checkPolicies(t, golden, function, recorded)
			}
		})
	}
}

func checkPolicies(t *testing.T, golden *stack, function string, recorded map[string][]call) {
	t.Helper()
	calls := recorded[function]
	misses := nearMisses(calls)
	for other := range recorded {
		for _, c := range recorded[other] {
			if !slices.ContainsFunc(calls, c.equal) && !readsRecords(function, c) {
				misses = append(misses, c)
			}
		}
	}
	role, endpoints := golden.policies(t, function)
	results := simulate(t, role, endpoints, slices.Concat(calls, misses))
	for i, c := range slices.Concat(calls, misses) {
		want := "Allowed"
		if i >= len(calls) {
			want = "ImplicitlyDenied"
		}
		if results[i] != want {
			t.Errorf("%s: %s: got %s, want %s", function, c, results[i], want)
		}
	}
	for _, s := range statements(t, role) {
		if strings.HasPrefix(s.Action, "dynamodb:") && !slices.ContainsFunc(calls, s.covers) {
			t.Errorf("%s: got no call that needs %+v, want one", function, s)
		}
	}
}

// readsRecords reports whether c is a read that the functions that decide may make: they read every item of
// the records table.
func readsRecords(function string, c call) bool {
	return (function == contract.Authorizer || function == contract.Handler) && c.Action == "dynamodb:GetItem"
}

// nearMisses returns calls that differ in one respect from allowed calls.
func nearMisses(calls []call) (misses []call) {
	for _, c := range calls {
		misses = append(misses, call{c.Action, c.Table + "2", c.Keys})
		for _, action := range []string{"BatchGetItem", "BatchWriteItem", "DeleteItem", "DeleteTable", "Query", "Scan", "UpdateTable"} {
			misses = append(misses, call{"dynamodb:" + action, c.Table, c.Keys})
		}
		if c.Action == "dynamodb:PutItem" {
			misses = append(misses, call{c.Action, c.Table, []string{c.Keys[0] + "2"}}, call{c.Action, c.Table, append([]string{"rules"}, c.Keys...)}, call{c.Action, c.Table, nil})
		}
	}
	return misses
}

// simulate returns the result of each call: Allowed, ImplicitlyDenied or ExplicitlyDenied.
func simulate(t *testing.T, role, endpoints []policy, calls []call) (results []string) {
	t.Helper()
	in, err := json.Marshal(map[string]any{"role": role, "endpoints": endpoints, "cases": calls})
	if err != nil {
		t.Fatal(err)
	}
	var problems bytes.Buffer
	c := exec.CommandContext(t.Context(), "node", "simulate.mjs")
	c.Stdin, c.Stderr = bytes.NewReader(in), &problems
	out, err := c.Output()
	if err == nil {
		err = json.Unmarshal(out, &results)
	}
	if err != nil || len(results) != len(calls) {
		t.Fatalf("simulator: got %d results of %d, %v\n%s%s", len(results), len(calls), err, out, problems.Bytes())
	}
	return results
}
