// Package policies_test evaluates the policies of the golden templates with a policy simulator.
package policies_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/gateway/template/templatetest"
)

// call is one call of an AWS service, in the terms of IAM policies.
type call struct {
	Action   string   `json:"action"`
	Resource string   `json:"resource"`           // ARN, or * for an action without a resource
	Keys     []string `json:"keys,omitempty"`     // the partition keys in a call of DynamoDB (condition key dynamodb:LeadingKeys)
	Function string   `json:"function,omitempty"` // ARN of the function whose code makes the call; "" if Lambda makes it
}

func (c call) String() string {
	return fmt.Sprintf("%s of %q in %s by %q", c.Action, c.Keys, c.Resource, c.Function)
}

func (c call) equal(o call) bool {
	return c.Action == o.Action && c.Resource == o.Resource && slices.Equal(c.Keys, o.Keys) && c.Function == o.Function
}

// on reports whether c is a call on a table of this kind: the table has a logical ID such as LimitsCounters1, or a name.
func (c call) on(kind string) bool { return strings.Contains(strings.ToLower(c.Resource), kind) }

func requireSimulator(t *testing.T) {
	t.Helper()
	storetest.Program(t, "node")
	if _, err := os.Stat("node_modules/@cloud-copilot/iam-simulate"); errors.Is(err, fs.ErrNotExist) {
		storetest.Unfetched(t, "node", "make test-examples", err)
	}
}

// The policies allow every call that a function makes, and deny similar calls.
func TestPolicies(t *testing.T) {
	requireSimulator(t)
	for _, name := range []string{"cloudfront", "dynamodb", "elasticache", "everything", "kafka", "regions", "regions-two", "settlement"} {
		t.Run(name, func(t *testing.T) {
			golden := parse(t, "../../../infra/golden/"+name+".template.json")
			recorded := golden.record(t)
			for function := range recorded {
				checkPolicies(t, golden, function, recorded)
			}
			checkEndpoints(t, golden, recorded)
		})
	}
}

// The precheck function can read its API and the gateway responses of the API, and nothing else.
func TestPolicies_precheck(t *testing.T) {
	requireSimulator(t)
	s := &stack{}
	if err := json.Unmarshal(templatetest.Read(t, "../../../infra/standalone/weir.template.json"), s); err != nil {
		t.Fatal(err)
	}
	var role []policy
	for id, r := range s.Resources {
		if strings.HasPrefix(id, "ApiLimitsPrecheckRoleDefaultPolicy") {
			role = append(role, s.arns(r.Properties["PolicyDocument"]).(policy))
		}
	}
	const api = "arn:aws:apigateway:us-east-1::/restapis/RestApiId"
	calls := []call{
		{Action: "apigateway:GET", Resource: api + "/gatewayresponses"},
		{Action: "apigateway:GET", Resource: api},
		{Action: "apigateway:GET", Resource: api + "2/gatewayresponses"},
		{Action: "apigateway:GET", Resource: api + "/stages"},
		{Action: "apigateway:PUT", Resource: api + "/gatewayresponses"},
		{Action: "apigateway:DELETE", Resource: api + "/gatewayresponses/ACCESS_DENIED"},
	}
	for i, got := range simulate(t, role, map[string][]policy{}, calls) {
		if want := map[bool]string{true: "Allowed", false: "ImplicitlyDenied"}[i < 2]; got != want {
			t.Errorf("%s: got %s, want %s", calls[i], got, want)
		}
	}
}

// With the policy of the output LayerPolicyArn, a function can make every call of the extension,
// and no similar call.
func TestPolicies_layer(t *testing.T) {
	requireSimulator(t)
	for _, redis := range []bool{false, true} {
		s := &stack{redis: redis}
		if err := json.Unmarshal(templatetest.Read(t, "../../../infra/standalone/weir.template.json"), s); err != nil {
			t.Fatal(err)
		}
		role := []policy{s.arns(s.Resources["LayerPolicy"].Properties["PolicyDocument"]).(policy)}
		calls := s.recordLayer(t)
		if redis {
			calls = append(calls, networkCalls()...)
		}
		evaluate(t, contract.Extension, role, map[string][]policy{}, calls, nearMisses(calls))
		checkNeeded(t, contract.Extension, role, calls)
	}
}

func checkPolicies(t *testing.T, golden *stack, function string, recorded map[string][]call) {
	t.Helper()
	calls := recorded[function]
	misses := nearMisses(calls)
	for other := range recorded {
		for _, c := range recorded[other] {
			if !slices.ContainsFunc(calls, c.equal) && !readsAPIKey(c) && !counts(calls, c) {
				misses = append(misses, c)
			}
		}
	}
	for _, c := range elsewhere(calls) {
		if !slices.ContainsFunc(calls, c.equal) && !counts(calls, c) {
			misses = append(misses, c)
		}
	}
	role, endpoints := golden.policies(t, function)
	evaluate(t, function, role, endpoints, calls, misses)
	checkNeeded(t, function, role, calls)
}

// counts reports whether c is a call on the counters, and calls have the same call for another item. The items of
// settled IDs have keys of their own, and no policy restricts the keys of counters.
func counts(calls []call, c call) bool {
	return c.on("counters") && slices.ContainsFunc(calls, func(o call) bool { return o.Action == c.Action && o.Resource == c.Resource && o.Function == c.Function })
}

// checkEndpoints checks the policy of each VPC endpoint alone, together with a role that allows
// everything.
func checkEndpoints(t *testing.T, golden *stack, recorded map[string][]call) {
	t.Helper()
	var inside, all []call
	endpoints := map[string][]policy{}
	for function, calls := range recorded {
		all = append(all, calls...)
		if _, each := golden.policies(t, function); len(each) > 0 {
			inside, endpoints = append(inside, calls...), each
		}
	}
	everything := policy{"Version": "2012-10-17", "Statement": []any{map[string]any{"Effect": "Allow", "Action": "*", "Resource": "*"}}}
	for service, policies := range endpoints {
		elsewhere := func(c call) bool { return !strings.HasPrefix(c.Action, service+":") }
		calls := slices.DeleteFunc(slices.Clone(inside), elsewhere)
		misses := slices.DeleteFunc(slices.Concat(nearMisses(calls), all), func(c call) bool { return elsewhere(c) || slices.ContainsFunc(calls, c.equal) })
		evaluate(t, "endpoint "+service, []policy{everything}, map[string][]policy{service: policies}, calls, misses)
		checkNeeded(t, "endpoint "+service, policies, calls)
	}
}

// evaluate checks that the policies allow all calls and deny all misses.
func evaluate(t *testing.T, name string, role []policy, endpoints map[string][]policy, calls, misses []call) {
	t.Helper()
	results := simulate(t, role, endpoints, slices.Concat(calls, misses))
	for i, c := range slices.Concat(calls, misses) {
		want := "Allowed"
		switch {
		case i >= len(calls) && c.Function != "":
			want = "ExplicitlyDenied"
		case i >= len(calls):
			want = "ImplicitlyDenied"
		}
		if results[i] != want {
			t.Errorf("%s: %s: got %s, want %s", name, c, results[i], want)
		}
	}
}

// checkNeeded checks that the policies have no superfluous permission: each permission covers one of the
// calls. The exception is a read of the issuer's public keys, which a network permits without an issuer, too.
func checkNeeded(t *testing.T, name string, policies []policy, calls []call) {
	t.Helper()
	for _, s := range statements(t, policies) {
		if !slices.ContainsFunc(calls, s.covers) && (s.Key != contract.SigningKeysKey || s.Action != "dynamodb:GetItem") {
			t.Errorf("%s: got no call that needs %+v, want one", name, s)
		}
	}
}

// readsAPIKey reports whether c reads an API key. A function that can read one can read each whose hash it knows.
func readsAPIKey(c call) bool {
	return c.Action == "dynamodb:GetItem" && strings.HasPrefix(c.Keys[0], contract.APIKeyPrefix)
}

// otherActions has, by kind of resource, actions that no function needs.
var otherActions = map[string][]string{
	"cloudfront:key-value-store":  {"cloudfront-keyvaluestore:DeleteKey", "cloudfront-keyvaluestore:PutKey", "cloudfront:DeleteKeyValueStore"},
	"dynamodb:table":              {"dynamodb:BatchGetItem", "dynamodb:BatchWriteItem", "dynamodb:DeleteItem", "dynamodb:DeleteTable", "dynamodb:Query", "dynamodb:Scan", "dynamodb:UpdateTable"},
	"kinesis:stream":              {"kinesis:PutRecord", "kinesis:GetRecords", "kinesis:DescribeStream", "kinesis:DeleteStream"},
	"kafka:cluster":               {"kafka-cluster:AlterCluster", "kafka-cluster:DescribeCluster", "kafka-cluster:WriteDataIdempotently"},
	"kafka:topic":                 {"kafka-cluster:AlterTopic", "kafka-cluster:CreateTopic", "kafka-cluster:DeleteTopic", "kafka-cluster:ReadData"},
	"elasticache:serverlesscache": {"elasticache:DeleteServerlessCache", "elasticache:ModifyServerlessCache"},
	"elasticache:user":            {"elasticache:DeleteUser", "elasticache:ModifyUser"},
	"logs:log-group":              {"logs:DeleteLogStream", "logs:GetLogEvents"},
	"ec2:network-interface":       {"ec2:AttachNetworkInterface", "ec2:ModifyNetworkInterfaceAttribute"},
}

// resourceKind returns the service and the type in an ARN, such as kinesis:stream.
func resourceKind(resource string) string {
	parts := strings.SplitN(resource, ":", 6)
	if len(parts) < 6 {
		return resource
	}
	return parts[2] + ":" + parts[5][:strings.IndexAny(parts[5], ":/")]
}

// nearMisses returns calls that differ from an allowed call in one respect: action, resource or
// key.
func nearMisses(calls []call) (misses []call) {
	for _, c := range calls {
		if strings.HasPrefix(c.Action, "ec2:") { // only Lambda may manage network interfaces, not the function's code
			misses = append(misses, call{Action: c.Action, Resource: c.Resource, Function: arn("lambda", "function:f")})
		} else if c.Resource != "*" {
			misses = append(misses, call{Action: c.Action, Resource: neighbour(c.Resource), Keys: c.Keys})
		}
		for _, action := range otherActions[resourceKind(c.Resource)] {
			misses = append(misses, call{Action: action, Resource: c.Resource, Keys: c.Keys})
		}
		if c.Action == "dynamodb:PutItem" || c.Action == "dynamodb:GetItem" && c.on("records") && !readsAPIKey(c) {
			for _, keys := range [][]string{{c.Keys[0] + "2"}, append([]string{"rules#1"}, c.Keys...), nil} {
				misses = append(misses, call{Action: c.Action, Resource: c.Resource, Keys: keys})
			}
		}
	}
	return misses
}

// elsewhere returns the calls on the tables of the same names in other regions: in those of the golden templates, and in one of
// no template.
func elsewhere(calls []call) (others []call) {
	for _, c := range calls {
		if resourceKind(c.Resource) != "dynamodb:table" {
			continue
		}
		service, region := "arn:aws:dynamodb:", strings.Split(c.Resource, ":")[3]
		for _, other := range []string{"us-east-1", "eu-central-1", "ap-southeast-1", "eu-west-1"} {
			if other != region {
				others = append(others, call{Action: c.Action, Resource: strings.Replace(c.Resource, service+region, service+other, 1), Keys: c.Keys})
			}
		}
	}
	return others
}

// neighbour returns an ARN of the same kind with another name.
func neighbour(resource string) string {
	if before, stream, ok := strings.Cut(resource, ":log-stream:"); ok {
		return before + "2:log-stream:" + stream
	}
	return resource + "2"
}

// simulator is a process that answers each line of its input: it evaluates calls against policies.
type simulator struct {
	in  *json.Encoder
	out *json.Decoder
}

// startSimulator starts one simulator for all tests, because its start takes longer than an evaluation. It ends with
// this program, which closes its input.
var startSimulator = sync.OnceValues(func() (simulator, error) {
	c := exec.CommandContext(context.Background(), "node", "simulate.mjs")
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		return simulator{}, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return simulator{}, err
	}
	return simulator{json.NewEncoder(in), json.NewDecoder(out)}, c.Start()
})

// simulate returns the result of each call: Allowed, ImplicitlyDenied or ExplicitlyDenied.
func simulate(t *testing.T, role []policy, endpoints map[string][]policy, calls []call) (results []string) {
	t.Helper()
	s, err := startSimulator()
	if err == nil {
		err = s.in.Encode(map[string]any{"role": role, "endpoints": endpoints, "cases": calls})
	}
	if err == nil {
		err = s.out.Decode(&results)
	}
	if err != nil || len(results) != len(calls) {
		t.Fatalf("simulator: got %d results of %d, %v", len(results), len(calls), err)
	}
	return results
}
