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

// The released template is the merged one. With the conditions of a variant, it has exactly the resources that the
// construct creates for it.
func TestTemplate_variants(t *testing.T) {
	all := map[variant]node{}
	content, err := templateOf(func(v variant) (node, error) {
		made, err := synthesize(v, "rules.json")
		all[v] = copied(t, made) // merge changes no template, but its result shares parts with them
		return made, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if released := storetest.Must(os.ReadFile("weir.template.json")); !bytes.Equal(content, released) {
		t.Error("weir.template.json differs from the merged template; if the change is intended, run make golden")
	}
	if len(all) != 12 { // DynamoDB, a cache, and a cache in the user's network; each with and without an issuer and an origin
		t.Errorf("got %d variants, want 12", len(all))
	}
	template := copied(t, json.RawMessage(content))
	for v, made := range all {
		for _, api := range []bool{true, false} {
			always := map[string]bool{hasAPI: api, hasAlarmEmail: true, hasAccessLog: api, hasBoundary: api, hasKey: api}
			want := evaluate(t, made, always)
			always[hasIssuer], always[hasOrigin], always[usesRedis], always[hasVPC] = v.issuer, v.origin, v.store == ratelimit.ElastiCache, v.network
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
	parameters := object(released(t)["Parameters"])
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
		"BasePath":            {"": true, "/v1": true, "/a.b/c": true, "v1": false, "/": true, "/v1,/": true, "//": false, "/v1/": false, "/..": false, "/a/../b": false, "/v1,/a/b+c": true, "/v1,": false, "/v1, /v2": false, "/v1,v2": false},
		"SubnetIds":           {"": true, "subnet-0a,subnet-1b": true, "subnet-0a,subnet-1b,subnet-2c": true, "subnet-0a": false, "subnet-0a, subnet-1b": false, "subnet-0,subnet-1,subnet-2,subnet-3": false},
		"SecurityGroupId":     {"": true, "sg-0a": true, "sg-0a,sg-1b": false},
		"VpcId":               {"": true, "vpc-0a": true, "subnet-0a": false},
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

// With a network of the user, the template creates no network: its endpoint would admit only the table of API keys.
// The functions and the cache are in the user's subnets, and the cache admits the user's security group.
func TestTemplate_network(t *testing.T) {
	template := released(t)
	for own, want := range map[bool]map[string]int{
		true:  {"AWS::EC2::SecurityGroup": 1, "AWS::EC2::SecurityGroupIngress": 1},
		false: {"AWS::EC2::SecurityGroup": 2, "AWS::EC2::SecurityGroupIngress": 1, "AWS::EC2::SecurityGroupEgress": 1, "AWS::EC2::VPC": 1, "AWS::EC2::VPCEndpoint": 1, "AWS::EC2::Subnet": 2, "AWS::EC2::RouteTable": 2, "AWS::EC2::SubnetRouteTableAssociation": 2},
	} {
		got := evaluate(t, template, map[string]bool{usesRedis: true, hasVPC: own})
		count, inside := map[string]int{}, 0
		subnets, group := any(node{"Fn::Split": []any{",", node{"Ref": "SubnetIds"}}}), any(node{"Ref": "SecurityGroupId"})
		for id, each := range object(got["Resources"]) {
			kind, properties := object(each)["Type"].(string), object(object(each)["Properties"])
			if strings.HasPrefix(kind, "AWS::EC2::") {
				count[kind]++
			}
			network := object(properties["VpcConfig"])
			switch {
			case !own:
			case network != nil:
				inside++
				if !reflect.DeepEqual(network["SubnetIds"], subnets) || !reflect.DeepEqual(network["SecurityGroupIds"], []any{group}) {
					t.Errorf("%s: got %v, want the network of the user", id, network)
				}
			case kind == "AWS::ElastiCache::ServerlessCache" && !reflect.DeepEqual(properties["SubnetIds"], subnets):
				t.Errorf("%s: got the subnets %v, want those of the user", id, properties["SubnetIds"])
			case kind == "AWS::EC2::SecurityGroup" && !reflect.DeepEqual(properties["VpcId"], any(node{"Ref": "VpcId"})):
				t.Errorf("%s: got the VPC %v, want that of the user", id, properties["VpcId"])
			case kind == "AWS::EC2::SecurityGroupIngress" && !reflect.DeepEqual(properties["SourceSecurityGroupId"], group):
				t.Errorf("%s: got the source %v, want the user's group", id, properties["SourceSecurityGroupId"])
			}
		}
		if !reflect.DeepEqual(count, want) || own && inside != 2 {
			t.Errorf("own network %t: got the resources %v and %d functions in it, want %v and 2", own, count, inside, want)
		}
		if output := object(object(got["Outputs"])["LayerSecurityGroupId"])["Value"]; own && !reflect.DeepEqual(output, group) {
			t.Errorf("LayerSecurityGroupId: got %v, want the user's group", output)
		}
	}
}

// Each role has the boundary, each log group the retention, and each store of data the key.
func TestTemplate_everyResource(t *testing.T) {
	template, none := released(t), any(nil)
	for _, set := range []bool{true, false} {
		for _, redis := range []bool{true, false} {
			got := evaluate(t, template, map[string]bool{hasAPI: true, hasAlarmEmail: true, hasAccessLog: true, hasIssuer: true, usesRedis: redis, hasBoundary: set, hasKey: set})
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

func released(t *testing.T) node {
	t.Helper()
	content, err := os.ReadFile("weir.template.json")
	if err != nil {
		t.Fatal(err)
	}
	return copied(t, json.RawMessage(content))
}

// With the parameters for a browser, a page of the origin can read each gateway response, and
// functions get the parameters' values.
func TestTemplate_browser(t *testing.T) {
	template := released(t)
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
				for name, want := range map[string]any{contract.VariableBasePath: node{"Ref": "BasePath"}, contract.VariableRequireCredential: node{"Ref": "RequireCredential"}, contract.VariableAPIKeyHeader: node{"Ref": "ApiKeyHeader"}, contract.VariableForeignAPIKeys: node{"Ref": "ForeignApiKeys"}, contract.VariableJWTAlgorithms: node{"Ref": "JwtAlgorithms"}, contract.VariableViewerAddress: node{"Ref": "ViewerAddress"}, contract.VariableDirectRequests: node{"Ref": "DirectRequests"}} {
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
