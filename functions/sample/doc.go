// Package sample is the sample API. ADOPTING.md describes how to use your own API in its place.
//
// To run your API with limits:
//
//  1. Write your routes in any http.Handler, as in [New], and pass it in functions/handler/main.go.
//  2. Write the limits of your endpoints in functions/rules.json.
//  3. List the routes in infra/stack/apis.go and run `make golden`: API Gateway and `make run` only pass these on.
//
// The handlers need no code for limits. [lambdahttp.Environment] enforces the rules before it calls
// the handlers, on Lambda and on this machine. The login shows the exception, a limit that depends on
// the body of a request. It charges an attempt for the name, and refunds the attempt if the password
// is correct.
package sample
