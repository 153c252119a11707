package standalone

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/infra/ratelimit"
)

// evaluate returns the template under these conditions: without resources and outputs whose
// condition is false, and with the selected value of each Fn::If.
func evaluate(t *testing.T, template node, conditions map[string]bool) node {
	t.Helper()
	var holds func(c any) bool
	holds = func(c any) bool {
		n := object(c)
		if list, ok := n["Fn::And"].([]any); ok {
			return holds(list[0]) && holds(list[1])
		}
		if list, ok := n["Fn::Not"].([]any); ok && object(list[0])["Condition"] != nil {
			return !holds(list[0])
		}
		name, _ := n["Condition"].(string)
		if value, ok := conditions[name]; ok {
			return value
		}
		return holds(object(template["Conditions"])[name])
	}
	none := any(node{"Ref": "AWS::NoValue"})
	var choose func(v any) any
	choose = func(v any) any {
		switch v := v.(type) {
		case node:
			if list, ok := v["Fn::If"].([]any); ok {
				if holds(node{"Condition": list[0]}) {
					return choose(list[1])
				}
				return choose(list[2])
			}
			made := node{}
			for k, each := range v {
				if each = choose(each); !reflect.DeepEqual(each, none) {
					made[k] = each
				}
			}
			return made
		case []any:
			made := make([]any, len(v))
			for i := range v {
				made[i] = choose(v[i])
			}
			return made
		}
		return v
	}
	result := node{}
	for _, section := range []string{"Resources", "Outputs"} {
		kept := node{}
		for name, each := range object(template[section]) {
			n := object(each)
			if c, ok := n["Condition"].(string); ok && !holds(node{"Condition": c}) {
				continue
			}
			n = choose(n).(node)
			delete(n, "Condition")
			delete(n, "DependsOn") // without DependsOn on resources that are left out
			kept[name] = n
		}
		result[section] = kept
	}
	return result
}

// copied returns template after a round trip through JSON, with the types of encoding/json.
func copied(t *testing.T, template any) node {
	t.Helper()
	var made node
	content, err := json.Marshal(template)
	if err == nil {
		err = json.Unmarshal(content, &made)
	}
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// variants returns all combinations of the parameters that add or remove resources.
func variants() (all []variant) {
	for _, store := range []ratelimit.Store{ratelimit.ElastiCache, ratelimit.DynamoDB} {
		for _, issuer := range []bool{true, false} {
			all = append(all, variant{store, issuer, true}, variant{store, issuer, false})
		}
	}
	return all
}

// With the conditions of a variant, the merged template has exactly the resources that the
// construct creates for it.
func TestTemplate_variants(t *testing.T) {
	content, err := Template("rules.json")
	if err != nil {
		t.Fatal(err)
	}
	template := copied(t, json.RawMessage(content))
	for _, v := range variants() {
		made, err := synthesize(v, "rules.json")
		if err != nil {
			t.Fatal(err)
		}
		for _, api := range []bool{true, false} {
			always := map[string]bool{hasAPI: api, hasAlarmEmail: true, hasAccessLog: api}
			want := evaluate(t, copied(t, made), always)
			always[hasIssuer], always[hasOrigin], always[usesRedis] = v.issuer, v.origin, v.store == ratelimit.ElastiCache
			got := evaluate(t, template, always)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, API %t: got %v, want %v", v, api, got, want)
			}
			outputs := object(got["Outputs"])
			for name, want := range map[string]bool{
				"AuthorizerId": api, "RecordsTable": true, "SettleFunctionArn": true, "DashboardName": true, "LayerArn": true, "LayerPolicyArn": true, "LayerVariables": true,
				"CountersTable": v.store == ratelimit.DynamoDB, "CacheURL": v.store == ratelimit.ElastiCache,
				"LayerSubnetIds": v.store == ratelimit.ElastiCache, "LayerSecurityGroupId": v.store == ratelimit.ElastiCache,
			} {
				if (outputs[name] != nil) != want {
					t.Errorf("%+v: output %s: got %v, want the output: %t", v, name, outputs[name], want)
				}
			}
		}
	}
}

// CloudFormation rejects an invalid parameter before it creates a resource. Its patterns match the
// whole value. TEMPLATE.md lists each parameter.
func TestTemplate_parameters(t *testing.T) {
	content, err := os.ReadFile("weir.template.json")
	if err != nil {
		t.Fatal(err)
	}
	parameters := object(copied(t, json.RawMessage(content))["Parameters"])
	page, err := os.ReadFile("../TEMPLATE.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range parameters {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("TEMPLATE.md: got no parameter %s, want it", name)
		}
	}
	for name, values := range map[string]map[string]bool{
		"Namespace":  {"main": true, "a1-b2": true, "": false, "Main": false, "a--b": false, "1a": false, "a/b": false},
		"CodePrefix": {"": true, "weir/v1.0.0/": true, "weir/v1.0.0": false, "/weir/": false, "a//": false},
		"RestApiId":  {"": true, "a1b2c3d4e5": true, "https://a1b2c3d4e5.execute-api": false, "a1b2c3d4e": false},
		"CorsOrigin": {
			"": true, "*": true, "https://app.example": true, "http://localhost:3000": true, "https://app.example/": false, "http://app.example": false,
			"https://a.example,https://b.example": false, "app.example": false,
		},
		"BasePath": {"": true, "/v1": true, "/a.b/c": true, "v1": false, "/": false, "/v1/": false, "/..": false, "/a/../b": false, "/v1,/a/b+c": true, "/v1,": false, "/v1, /v2": false, "/v1,v2": false},
		"JWKS":     {"": true, "https://a.example/jwks": true, "http://a.example/jwks": false},
	} {
		p := object(parameters[name])
		pattern, _ := p["AllowedPattern"].(string)
		matches := regexp.MustCompile("^(?:" + pattern + ")$")
		for value, want := range values {
			if got := matches.MatchString(value); got != want {
				t.Errorf("%s %q: got a match: %t, want %t", name, value, got, want)
			}
		}
		if text, _ := p["ConstraintDescription"].(string); pattern == "" || text == "" {
			t.Errorf("%s: got the pattern %q and its description %q, want both", name, pattern, text)
		}
	}
}

func TestMerge(t *testing.T) {
	resource := func(text string) node {
		return copied(t, json.RawMessage(`{"Description": "d", "Resources": {"A": `+text+`}}`))
	}
	for name, c := range map[string]struct{ yes, no, want string }{
		"equal":            {`{"Type": "T"}`, `{"Type": "T"}`, `{"Type": "T"}`},
		"a property":       {`{"Properties": {"P": 1}}`, `{"Properties": {"P": 2}}`, `{"Properties": {"P": {"Fn::If": ["C", 1, 2]}}}`},
		"in one":           {`{"Properties": {"P": 1}}`, `{"Properties": {}}`, `{"Properties": {"P": {"Fn::If": ["C", 1, {"Ref": "AWS::NoValue"}]}}}`},
		"a list":           {`{"Properties": {"P": [1]}}`, `{"Properties": {"P": [1, 2]}}`, `{"Properties": {"P": {"Fn::If": ["C", [1], [1, 2]]}}}`},
		"functions":        {`{"Properties": {"P": {"Ref": "X"}}}`, `{"Properties": {"P": {"Fn::Sub": "x"}}}`, `{"Properties": {"P": {"Fn::If": ["C", {"Ref": "X"}, {"Fn::Sub": "x"}]}}}`},
		"an inner value":   {`{"Properties": {"P": {"Q": 1, "R": 3}}}`, `{"Properties": {"P": {"Q": 2, "R": 3}}}`, `{"Properties": {"P": {"Q": {"Fn::If": ["C", 1, 2]}, "R": 3}}}`},
		"dependencies":     {`{"DependsOn": ["Y", "X"]}`, `{"DependsOn": "Z"}`, `{"DependsOn": ["X", "Y", "Z"]}`},
		"different types":  {`{"Type": "T"}`, `{"Type": "U"}`, ""},
		"another deletion": {`{"DeletionPolicy": "Retain"}`, `{}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := merge("C", resource(c.yes), resource(c.no))
			if c.want == "" {
				if err == nil || !strings.Contains(err.Error(), "resource A: ") {
					t.Errorf("got %v, want an error that names the resource", err)
				}
				return
			}
			if want := resource(c.want); err != nil || !reflect.DeepEqual(copied(t, got)["Resources"], want["Resources"]) {
				t.Errorf("got %v (%v), want %v", got, err, want)
			}
		})
	}
}

// With the parameters for a browser, a page of the origin can read each gateway response, and
// functions get the parameters' values.
func TestTemplate_browser(t *testing.T) {
	content, err := os.ReadFile("weir.template.json")
	if err != nil {
		t.Fatal(err)
	}
	template := copied(t, json.RawMessage(content))
	for origin, responses := range map[bool]int{true: 8, false: 6} {
		got := evaluate(t, template, map[string]bool{hasAPI: true, hasAlarmEmail: false, hasAccessLog: false, hasIssuer: false, usesRedis: false, hasOrigin: origin})
		decides := 0
		for id, each := range object(got["Resources"]) {
			properties := object(object(each)["Properties"])
			switch object(each)["Type"] {
			case "AWS::ApiGateway::GatewayResponse":
				responses--
				allowed := object(properties["ResponseParameters"])["gatewayresponse.header.Access-Control-Allow-Origin"]
				want := any(node{"Fn::Join": []any{"", []any{"'", node{"Ref": "CorsOrigin"}, "'"}}})
				if !origin {
					want = nil
				}
				if !reflect.DeepEqual(allowed, want) {
					t.Errorf("%s: Access-Control-Allow-Origin: got %v, want %v", id, allowed, want)
				}
			case "AWS::Lambda::Function":
				v := object(object(properties["Environment"])["Variables"])
				if v[contract.VariableCORSOrigins] == nil {
					continue
				}
				decides++
				for name, want := range map[string]any{contract.VariableBasePath: node{"Ref": "BasePath"}, contract.VariableRequireCredential: node{"Ref": "RequireCredential"}, contract.VariableAPIKeyHeader: node{"Ref": "ApiKeyHeader"}, contract.VariableForeignAPIKeys: node{"Ref": "ForeignApiKeys"}} {
					if !reflect.DeepEqual(v[name], want) {
						t.Errorf("%s: %s: got %v, want %v", id, name, v[name], want)
					}
				}
			}
		}
		if responses != 0 || decides != 1 {
			t.Errorf("origin %t: got %d responses too few and %d functions that decide, want 0 and 1", origin, responses, decides)
		}
	}
}
