package template

import "slices"

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

// checkPermission adds a problem if API Gateway lacks the permission to invoke f for source, a
// method, a route or an authorizer. On AWS, such a request gets a 500 and no log line.
func (d *parser) checkPermission(path string, f Function, source string) {
	d.checkPermissionOf(apiPrincipal, path, f, source)
}

// checkPermissionOf adds a problem if service lacks the permission to invoke f for source.
func (d *parser) checkPermissionOf(service, path string, f Function, source string) {
	allows := func(p permission) bool {
		return p.service == service && p.function == f.ARN && (p.source == "" || MatchPattern(p.source, source))
	}
	if !slices.ContainsFunc(d.permissions, allows) {
		d.p.add(path, "no AWS::Lambda::Permission allows %s to invoke %s", source, f.ID)
	}
}
