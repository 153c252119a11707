// Package template reads a CloudFormation template into the REST APIs, HTTP APIs and
// Lambda functions that it declares. Package gateway serves them.
//
// # Guarantee
//
// A template that [Parse] accepts can be served as API Gateway would serve it. Parse
// reports every resource, property, intrinsic function and variable that it does not
// support, all of them at once. It never ignores one by accident.
//
// # Where to look
//
//   - document.go, resolver.go, intrinsics.go, properties.go: the interpreter, from JSON
//     to properties without intrinsic functions
//   - resourcetypes.go: the known types of resources, and which of them a request reaches
//   - restapi.go, resttree.go, httpapi.go: the APIs, their methods and routes
//   - gatewayresponse.go, mappingtemplate.go, variables.go: headers and bodies of answers
//     that API Gateway gives itself, such as a 429
//   - throttle.go, cors.go, mock.go, authorizer.go, permission.go: settings of an API
//   - functions.go: functions with their versions and aliases
//
// # What it does not do
//
// Conditions are not evaluated and parameters have their defaults. An attribute of a
// resource that no request reaches has an invented value: the address of a cache ends in
// .invalid.
//
// In comments, a page name in quotes is a page of the API Gateway developer guide.
// "Observed" and "assumed" mean what the documentation of package gateway says.
package template
