// Package sample is the API of this deployment: replace it with your own.
//
// To run your API behind the limits:
//
//  1. Write your routes in [New], or any http.Handler, and pass it in functions/handler/main.go.
//  2. Write the limits of your endpoints in functions/rules.json.
//  3. Declare the routes in infra/stack, where API Gateway needs them.
//
// The handlers need no code for limits. [lambdahttp.Environment] applies the rules before it calls
// them, on Lambda and on this machine. The login shows the one exception, a limit that depends on the
// body of a request: it charges an attempt for the name and refunds it when the password is correct.
package sample
