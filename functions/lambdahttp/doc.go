// Package app holds the two functions as lambda.Handlers: bytes in, bytes out.
//
// [NewAuthorizer] answers REQUEST events of a REST API: it identifies the caller,
// asks the limiter and returns a policy whose context carries the answer's headers.
// [NewHandler] runs an http.Handler on events of a REST API, an HTTP API, a function
// URL or a load balancer. Behind the authorizer, which says so in the context of a REST
// API's event ("weir": "allowed"), it copies the decision into its response; otherwise it
// asks for the decision itself. [Environment.Serve] is the same http.Handler for
// net/http. What differs between the hosts is only how an event
// becomes a request, and where the client's address comes from.
//
// Nothing here reads the environment; package boot does.
package lambdahttp
