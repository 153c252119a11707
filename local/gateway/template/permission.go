package template

import "slices"

// permission is an AWS::Lambda::Permission that allows a service to invoke a function.
type permission struct {
	service  string // the principal
	function string // ARN of the function
	source   string // pattern of the ARNs that may invoke the function; empty for any
}

// readPermissions reads the permissions of API Gateway and CloudWatch Logs. It ignores those of other
// services.
func (d *parser) readPermissions() {
	d.each("AWS::Lambda::Permission", func(_ string, q *properties) {
		action, principal := q.required("Action"), q.required("Principal")
		function, source := q.required("FunctionName"), q.text("SourceArn")
		q.inert("EventSourceToken", "FunctionUrlAuthType", "InvokedViaFunctionUrl", "PrincipalOrgID", "SourceAccount")
		if principal != apiPrincipal && principal != logsPrincipal || action != "lambda:InvokeFunction" && action != "lambda:*" {
			return
		}
		// FunctionName can be a name instead of an ARN.
		if _, ok := d.byARN[function]; !ok {
			function = functionARN(function)
		}
		d.permissions = append(d.permissions, permission{principal, function, source})
	})
}

// apiPrincipal is the service that invokes the functions of an API.
const apiPrincipal = "apigateway.amazonaws.com"

// checkPermission reports a method, route or authorizer without a permission to invoke f.
// Without the permission, API Gateway answers 500 and logs no reason.
func (d *parser) checkPermission(path string, f Function, source string) {
	d.checkPermissionOf(apiPrincipal, path, f, source)
}

// checkPermissionOf reports a service without a permission to invoke f for source.
func (d *parser) checkPermissionOf(service, path string, f Function, source string) {
	allows := func(p permission) bool {
		return p.service == service && p.function == f.ARN && (p.source == "" || MatchPattern(p.source, source))
	}
	if !slices.ContainsFunc(d.permissions, allows) {
		d.p.add(path, "no AWS::Lambda::Permission allows %s to invoke %s", source, f.ID)
	}
}
