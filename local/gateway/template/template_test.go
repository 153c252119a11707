package template_test

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/local/gateway/template"
	"github.com/weir-limits/weir/local/gateway/template/templatetest"
)

// change sets a property of the first resource of a type, by logical id. A nil value removes it.
func change(t *testing.T, document map[string]any, kind, property string, value any) {
	t.Helper()
	for _, id := range slices.Sorted(maps.Keys(document["Resources"].(map[string]any))) {
		r := document["Resources"].(map[string]any)[id].(map[string]any)
		if r["Type"] != kind {
			continue
		}
		if name, ok := strings.CutPrefix(property, "/"); ok { // of the resource itself
			r[name] = value
			return
		}
		into := r["Properties"].(map[string]any)
		path := strings.Split(property, ".")
		for _, key := range path[:len(path)-1] {
			if list, ok := into[key].([]any); ok {
				into = list[0].(map[string]any)
			} else {
				into = into[key].(map[string]any)
			}
		}
		into[path[len(path)-1]] = value
		return
	}
	t.Fatalf("template: got no %s, want one", kind)
}

// Parse rejects a template with a part that it does not interpret, and says which part that is.
func TestParse_rejects(t *testing.T) {
	for _, c := range []struct {
		kind, property string
		value          any
		want           string
	}{
		{"AWS::ApiGateway::Authorizer", "AuthorizerResultTtlInSeconds", 300, "a cached answer charges nothing"},
		{"AWS::ApiGateway::Authorizer", "IdentitySource", "method.request.header.Authorization", "IdentitySource"},
		{"AWS::ApiGateway::Authorizer", "Type", "COGNITO_USER_POOLS", `want "REQUEST"`},
		{"AWS::ApiGateway::Method", "ApiKeyRequired", true, "ApiKeyRequired"},
		{"AWS::ApiGateway::Method", "Integration.Type", "HTTP_PROXY", `want "AWS_PROXY"`},
		{"AWS::ApiGateway::Method", "Integration.Uri", map[string]any{"Fn::Sub": "arn"}, "only Ref, Fn::GetAtt and Fn::Join"},
		{"AWS::ApiGateway::Method", "Integration.CacheNamespace", "a", `property "CacheNamespace": not supported`},
		{"AWS::ApiGateway::Stage", "MethodSettings.CachingEnabled", true, "CachingEnabled"},
		{"AWS::ApiGateway::GatewayResponse", "ResponseTemplates", map[string]any{"application/json": "#set($a = 1)"},
			"want only text and variables"},
		{"AWS::ApiGateway::GatewayResponse", "ResponseType", "TEAPOT", "ResponseType"},
		{"AWS::ApiGateway::Resource", "PathPart", "a b", "PathPart"},
		{"AWS::ApiGatewayV2::Route", "AuthorizationType", "JWT", `want "NONE"`},
		{"AWS::ApiGatewayV2::Route", "RouteKey", "FETCH /a", "RouteKey"},
		{"AWS::ApiGatewayV2::Integration", "PayloadFormatVersion", "1.0", `want "2.0"`},
		{"AWS::ApiGatewayV2::Api", "ProtocolType", "WEBSOCKET", `want "HTTP"`},
		{"AWS::Lambda::Permission", "Principal", "events.amazonaws.com", "no AWS::Lambda::Permission allows"},
		{"AWS::Lambda::Function", "Timeout", 901, "want 1 to 900"},
		{"AWS::Lambda::Function", "/Condition", "Used", "conditions are not evaluated"},
		{"AWS::ApiGateway::Deployment", "/Type", "AWS::ApiGateway::DomainName", "not supported by this gateway"},
	} {
		var document map[string]any
		if err := json.Unmarshal(templatetest.Read(t, "../../../infra/golden/dynamodb.template.json"), &document); err != nil {
			t.Fatal(err)
		}
		change(t, document, c.kind, c.property, c.value)
		text, _ := json.Marshal(document)
		parsed, err := template.Parse(text)
		if err == nil || parsed != nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s %s: got error %v, want one line that contains %q", c.kind, c.property, err, c.want)
		}
	}
	for text, want := range map[string]string{
		"{": "unexpected EOF", `{"Resources":{}}`: "required", `{"Parameters":{"P":{}},
			"Resources":{"A":{"Type":"AWS::S3::Bucket"}}}`: "Parameters.P: Default",
		strings.Repeat(" ", 1<<20+1): "at most",
	} {
		if _, err := template.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got error %v, want one that contains %q", text, err, want)
		}
	}
}

// The variables of the functions in the golden templates have values: names of tables, and invented ones.
func TestTemplate_Functions(t *testing.T) {
	for _, path := range templatetest.Glob(t, "../../../infra/golden/*.template.json") {
		parsed := templatetest.Parse(t, path)
		for _, f := range parsed.Functions() {
			if f.Timeout <= 0 || !strings.HasPrefix(f.ARN, "arn:aws:lambda:us-east-1:123456789012:function:"+f.ID) {
				t.Errorf("%s: %s: got %v and %q, want a timeout and the ARN", filepath.Base(path), f.ID, f.Timeout, f.ARN)
			}
		}
		if parsed.APIs() != 2 {
			t.Errorf("%s: got %d APIs, want 2", filepath.Base(path), parsed.APIs())
		}
	}
}

// MatchPattern matches like IAM, in a time that grows with the product of the lengths.
func TestMatchPattern(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"a*c", "abbc", true}, {"a*c", "ac", true}, {"a?c", "ac", false}, {"*", "", true}, {"a", "ab", false}, {"*b*", "abc", true},
		{"", "a", false},
		{strings.Repeat("*a", 500) + "b", strings.Repeat("a", 1600), false},
	} {
		if got := template.MatchPattern(c.pattern, c.text); got != c.want {
			t.Errorf("MatchPattern(%.20q, %.20q): got %t, want %t", c.pattern, c.text, got, c.want)
		}
	}
}
