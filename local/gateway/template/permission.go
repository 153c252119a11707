package template

import "slices"

// permission is an AWS::Lambda::Permission that lets API Gateway invoke a function.
type permission struct {
	function string // its ARN
	source   string // pattern of ARNs that may invoke it; empty is any
}

// readPermissions reads who may invoke what. Permissions for other services are of
// no interest here.
func (d *parser) readPermissions() {
	d.each("AWS::Lambda::Permission", func(_ string, q *properties) {
		action, principal := q.required("Action"), q.required("Principal")
		function, source := q.required("FunctionName"), q.text("SourceArn")
		q.inert("EventSourceToken", "FunctionUrlAuthType", "InvokedViaFunctionUrl", "PrincipalOrgID", "SourceAccount")
		if principal != "apigateway.amazonaws.com" || action != "lambda:InvokeFunction" && action != "lambda:*" {
			return
		}
		// A function is named by its ARN or by its name.
		if _, ok := d.byARN[function]; !ok {
			function = functionARN(function)
		}
		d.permissions = append(d.permissions, permission{function, source})
	})
}

// checkPermission refuses a method, route or authorizer whose ARN may not invoke f:
// API Gateway answers it with a 500, and nothing in a log says why.
func (d *parser) checkPermission(path string, f Function, source string) {
	allows := func(p permission) bool {
		return p.function == f.ARN && (p.source == "" || MatchPattern(p.source, source))
	}
	if !slices.ContainsFunc(d.permissions, allows) {
		d.p.add(path, "no AWS::Lambda::Permission allows %s to invoke %s", source, f.ID)
	}
}
