// Package sample is the sample API. .github/ADOPTING.md describes how to use your own API in its place.
//
// To run your API with limits:
//
//  1. Write your routes in a [lambdahttp.Mux], as in [New], and pass it in functions/handler/main.go.
//  2. Run `make golden`: a deployment passes on only the routes of the templates that it writes. With an
//     http.Handler of another type, list its routes in infra/stack/routes.txt before.
//  3. Write the limits of your endpoints in functions/rules.json.
//
// The handlers need no code for limits. [lambdahttp.Environment] enforces the rules before it calls
// the handlers, on Lambda and on this machine. The login shows the exception, a limit that depends on
// the body of a request. It charges an attempt for the name, and refunds the attempt if the password
// is correct.
package sample
