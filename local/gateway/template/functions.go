package template

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// readFunctions reads the Lambda functions with their versions, aliases and permissions. All versions and aliases of a
// function run the same code here. The caller of gateway.New supplies it.
func (p *parser) readFunctions() {
	type functionProperties struct {
		FunctionName string
		Timeout      int
		Environment  struct{ Variables map[string]string }
		Architectures, Code, Description, Handler, LoggingConfig, KMSKeyARN, Layers, MemorySize, ReservedConcurrentExecutions, Role, Runtime,
		Tags,
		TracingConfig, VPCConfig any
	}
	each(p, "AWS::Lambda::Function", func(id string, q functionProperties) {
		timeout := time.Duration(cmp.Or(q.Timeout, 3)) * time.Second
		f := Function{ID: id, Environment: q.Environment.Variables, Timeout: timeout, ARN: functionARN(p.refs[id])}
		if q.Timeout < 0 || q.Timeout > 900 {
			p.fail(id, "Timeout: got %d, want 1 to 900", q.Timeout)
		}
		if _, taken := p.functions[f.ARN]; taken {
			p.fail(id, "FunctionName: got %q, which is the name of another function too", q.FunctionName)
		}
		p.functions[f.ARN] = len(p.template.functions)
		p.template.functions = append(p.template.functions, f)
	})
	type qualified struct {
		FunctionName, Name                                                     string
		CodeSha256, Description, FunctionVersion, ProvisionedConcurrencyConfig any
	}
	for _, kind := range []string{"AWS::Lambda::Version", "AWS::Lambda::Alias"} {
		each(p, kind, func(id string, q qualified) {
			if i, ok := p.function(id, "FunctionName", functionARN(q.FunctionName)); ok {
				p.functions[p.refs[id]] = i
			}
		})
	}
	type permitted struct {
		Action, FunctionName, Principal, SourceARN string
		SourceAccount                              any
	}
	each(p, "AWS::Lambda::Permission", func(_ string, q permitted) {
		if q.Action == "lambda:InvokeFunction" && q.Principal == "apigateway.amazonaws.com" {
			p.permissions = append(p.permissions, permission{q.FunctionName, cmp.Or(q.SourceARN, "*")})
		}
	})
}

// function returns the index of the function with an ARN, which is a property of the resource id.
func (p *parser) function(id, property, arn string) (int, bool) {
	i, ok := p.functions[arn]
	if !ok {
		p.fail(id, "%s: got %q, want a function of this template", property, arn)
	}
	return i, ok
}

// invoked returns the logical id of the function that an integration or an authorizer invokes, and checks that API Gateway
// may invoke it for source. uri is its ARN, or a URI of API Gateway that contains the ARN.
func (p *parser) invoked(id, property, uri, source string) string {
	arn := strings.TrimPrefix(uri, fmt.Sprintf("arn:%s:apigateway:%s:lambda:path/2015-03-31/functions/", partition, region))
	i, ok := p.function(id, property, strings.TrimSuffix(arn, "/invocations"))
	if !ok {
		return ""
	}
	f := p.template.functions[i]
	if !slices.ContainsFunc(p.permissions, func(allowed permission) bool {
		permitted, known := p.functions[allowed.function]
		return known && permitted == i && MatchPattern(allowed.source, source)
	}) { // on AWS, such a request gets a 500
		p.fail(id, "no AWS::Lambda::Permission allows %s to invoke %s", source, f.ID)
	}
	return f.ID
}

// permission allows API Gateway to invoke a function.
type permission struct {
	function string // ARN
	source   string // pattern for the ARN of the invoking method or route
}

// MatchPattern reports whether text matches pattern. In pattern, * matches any text, including
// slashes, and ? matches one character. It takes at most len(pattern)*len(text) steps.
func MatchPattern(pattern, text string) bool {
	p, t := 0, 0
	star, end := -1, 0 // star: index of the last * in pattern, or -1; end: index in text at which the match of this * ends
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, end = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			end++
			p, t = star+1, end
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
