package standalone

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/infra/ratelimit"
	"github.com/weir-limits/weir/limiter/storetest"
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
		if value, ok := conditions[name]; ok || name == "" { // a condition without an entry is false if it compares a parameter
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
				each = choose(each)
				if !reflect.DeepEqual(each, none) {
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

// CloudFormation rejects an invalid parameter before it creates a resource. Its patterns match the
// whole value. TEMPLATE.md lists each parameter.
func TestTemplate_parameters(t *testing.T) {
	parameters := object(released(t, ratelimit.DynamoDB)["Parameters"])
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
			"": true, "*": true, "https://app.example": true, "http://localhost:3000": true, "https://app.example/": false,
			"http://app.example":                  false,
			"https://a.example,https://b.example": false, "app.example": false,
		},
		"BasePath": {"": true, "/v1": true, "/a.b/c": true, "v1": false, "/": true, "/v1,/": true, "//": false, "/v1/": false,
			"/..": false, "/a/../b": false, "/v1,/a/b+c": true, "/v1,": false, "/v1, /v2": false, "/v1,v2": false},
		"PermissionsBoundary": {"": true, "arn:aws:iam::123456789012:policy/path/boundary": true, "boundary": false},
		"KmsKeyArn":           {"": true, "arn:aws-cn:kms:cn-north-1:123456789012:key/mrk-1": true, "alias/own": false},
		"JwtAlgorithms":       {"RS256": true, "ES256,EdDSA,PS512": true, "": false, "none": false, "RS256,HS256": false, "RS256,": false},
		"JWKS":                {"": true, "https://a.example/jwks": true, "http://a.example/jwks": false},
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

// Each role has the boundary, each log group the retention, and each store of data the key.
func TestTemplate_everyResource(t *testing.T) {
	none := any(nil)
	for _, set := range []bool{true, false} {
		for _, redis := range []bool{true, false} {
			template := released(t, map[bool]ratelimit.Store{true: ratelimit.ElastiCache, false: ratelimit.DynamoDB}[redis])
			got := evaluate(t, template, map[string]bool{"HasRestApiId": true, "HasAlarmEmail": true, "HasAccessLogGroup": true,
				"HasIssuer": true, "HasCorsOrigin": true, hasAPIAndOrigin: true, "HasPermissionsBoundary": set, "HasKmsKey": set})
			boundary, key := any(node{"Ref": "PermissionsBoundary"}), any(node{"Ref": "KmsKeyArn"})
			table := any(node{"SSEEnabled": true, "SSEType": "KMS", "KMSMasterKeyId": key})
			if !set {
				boundary, key, table = none, none, none
			}
			for kind, want := range map[string]node{
				"AWS::IAM::Role":                    {"PermissionsBoundary": boundary},
				"AWS::Logs::LogGroup":               {"KmsKeyId": key, "RetentionInDays": node{"Ref": "LogRetentionDays"}},
				"AWS::DynamoDB::Table":              {"SSESpecification": table},
				"AWS::ElastiCache::ServerlessCache": {"KmsKeyId": key},
			} {
				found := 0
				for id, each := range object(got["Resources"]) {
					if object(each)["Type"] != kind {
						continue
					}
					found++
					for property, value := range want {
						if v := object(object(each)["Properties"])[property]; !reflect.DeepEqual(v, value) {
							t.Errorf("%s: %s: got %v, want %v", id, property, v, value)
						}
					}
				}
				if found == 0 && (redis || kind != "AWS::ElastiCache::ServerlessCache") {
					t.Errorf("got no %s, want at least one", kind)
				}
			}
		}
	}
}

func released(t *testing.T, store ratelimit.Store) node {
	t.Helper()
	content, err := os.ReadFile(files[store])
	if err != nil {
		t.Fatal(err)
	}
	return copied(t, json.RawMessage(content))
}

// files has the released templates.
var files = map[ratelimit.Store]string{ratelimit.DynamoDB: "weir.template.json", ratelimit.ElastiCache: "weir-elasticache.template.json"}

// The released templates are those that Template returns. The one with a cache copies the keys of an issuer only if there
// is one.
func TestTemplate(t *testing.T) {
	for store, file := range files {
		content, err := Template(store, "rules.json")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(content, storetest.Must(os.ReadFile(file))) {
			t.Errorf("%s differs from the template of %s; if the change is intended, run make golden", file, store)
		}
		for _, issuer := range []bool{true, false} {
			got := evaluate(t, released(t, store), map[string]bool{"HasRestApiId": true, "HasIssuer": issuer, "HasAlarmEmail": true,
				"HasAccessLogGroup": true, "HasPermissionsBoundary": true, "HasKmsKey": true, "HasCorsOrigin": true, hasAPIAndOrigin: true})
			copies := 0
			for id := range object(got["Resources"]) {
				if strings.HasPrefix(id, "LimitsSigningKeys") {
					copies++
				}
			}
			if want := issuer && store == ratelimit.ElastiCache; (copies > 0) != want {
				t.Errorf("%s, issuer %t: got %d resources that copy its keys, want some: %t", file, issuer, copies, want)
			}
			for name, want := range map[string]bool{
				"AuthorizerId": true, "RecordsTable": true, "ReportFunctionArn": true, "DashboardName": true, "LayerArn": true, "LayerPolicyArn": true,
				"LayerVariables": true,
				"Store":          true,
				"LayerSubnetIds": store == ratelimit.ElastiCache,
			} {
				if (object(got["Outputs"])[name] != nil) != want {
					t.Errorf("%s: output %s: got it: %t, want %t", file, name, !want, want)
				}
			}
		}
	}
}

func object(v any) node {
	n, _ := v.(node)
	return n
}

// With the parameters for a browser, a page of the origin can read each gateway response, and
// functions get the parameters' values.
func TestTemplate_browser(t *testing.T) {
	template := released(t, ratelimit.DynamoDB)
	for origin, responses := range map[bool]int{true: 8, false: 6} {
		got := evaluate(t, template, map[string]bool{"HasRestApiId": true, "HasAlarmEmail": false, "HasAccessLogGroup": false,
			"HasIssuer": false, "HasCorsOrigin": origin, hasAPIAndOrigin: origin})
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
				for name, want := range map[string]any{contract.VariableBasePath: node{"Ref": "BasePath"},
					contract.VariableRequireCredential: node{"Ref": "RequireCredential"}, contract.VariableAPIKeyHeader: node{"Ref": "ApiKeyHeader"},
					contract.VariableForeignAPIKeys: node{"Ref": "ForeignApiKeys"}, contract.VariableJWTAlgorithms: node{"Ref": "JwtAlgorithms"},
					contract.VariableAddress: node{"Ref": "Address"}, contract.VariableOriginSecret: node{"Ref": "OriginSecret"},
					contract.VariableSecretBefore: node{"Ref": "PreviousOriginSecret"}} {
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
