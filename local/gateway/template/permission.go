package template

import (
	"slices"
	"strings"
)

// permission is an AWS::Lambda::Permission that allows a service to invoke a function.
type permission struct {
	service  string // the service that may invoke
	function string // ARN of the function that it may invoke
	source   string // pattern for the ARN of the invoking method, route or log group; empty means any
}

// readPermissions reads the permissions of API Gateway and CloudWatch Logs. It ignores the
// permissions of other services.
func (d *parser) readPermissions() {
	d.each("AWS::Lambda::Permission", func(_ string, q *properties) {
		action, principal := q.required("Action"), q.required("Principal")
		function, source := q.required("FunctionName"), q.text("SourceArn")
		q.inert("EventSourceToken", "FunctionUrlAuthType", "InvokedViaFunctionUrl", "PrincipalOrgID", "SourceAccount")
		if principal != apiPrincipal && principal != logsPrincipal || action != "lambda:InvokeFunction" && action != "lambda:*" {
			return
		}
		// FunctionName can be a name or an ARN.
		if _, ok := d.byARN[function]; !ok {
			function = functionARN(function)
		}
		d.permissions = append(d.permissions, permission{principal, function, source})
	})
}

const apiPrincipal = "apigateway.amazonaws.com"

// checkPermission adds a problem of the resource with the properties q if service lacks the permission to invoke f for
// source: a method, a route, an authorizer or a log group. On AWS, such a request gets a 500 and no log line.
func (d *parser) checkPermission(service string, q *properties, f Function, source string) {
	allows := func(p permission) bool {
		return p.service == service && p.function == f.ARN && (p.source == "" || MatchPattern(p.source, source))
	}
	if !slices.ContainsFunc(d.permissions, allows) {
		d.p.add(strings.TrimSuffix(q.path, ".Properties"), "no AWS::Lambda::Permission allows %s to invoke %s", source, f.ID)
	}
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
