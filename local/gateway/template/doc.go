// Package template reads a CloudFormation template into the REST APIs, HTTP APIs and
// Lambda functions that it declares. Package gateway serves them.
//
// # Guarantee
//
// If [Parse] accepts a template, package gateway can serve it as API Gateway would. Parse
// reports every unsupported resource, property, intrinsic function and variable. One error
// lists them all. Parse never ignores an unsupported part by accident.
//
// # Where to look
//
//   - document.go, resolver.go, intrinsics.go, properties.go: the interpreter, from JSON
//     to properties without intrinsic functions
//   - resourcetypes.go: the known types of resources, and how each is treated
//   - restapi.go, httpapi.go, path.go: the APIs, their methods and routes
//   - gatewayresponse.go, variables.go: headers and bodies of answers that API Gateway creates
//     without a function, such as a 429
//   - accesslog.go: the access log of a stage, and the functions that get its lines
//   - throttle.go, cors.go, mock.go, permission.go: settings of an API
//   - functions.go: functions with their versions and aliases
//
// # What it does not do
//
// Conditions are not evaluated, and parameters have their defaults. If no request reaches a
// resource, the attributes of the resource have invented values. For example, the address of a
// cache ends in .invalid.
//
// In comments, a page name in quotes is a page of the API Gateway developer guide.
// Package gateway defines "observed" and "assumed".
package template
