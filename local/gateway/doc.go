// Package gateway is API Gateway on your machine. It serves the REST and HTTP APIs of a
// CloudFormation template. The Lambda functions run in this process or in environments of
// their own.
//
// # Guarantee
//
// The gateway serves a template as API Gateway does. Package template rejects every
// template that this package would serve in another way. Functions receive the events
// that AWS sends, through the interface that AWS's library calls. The gateway checks their
// answers as strictly as AWS does. A refusal by an authorizer goes through the gateway
// responses of the template.
//
//	parsed, err := template.Parse(data)
//	g, err := gateway.New(parsed, gateway.Options{Functions: map[string]lambda.Handler{
//		"AuthorizerFunction": authorizer, // by logical id
//		"HandlerFunction":    handler,
//	}})
//	for _, api := range g.APIs() {
//		go http.ListenAndServe(addresses[api.ID], api)
//	}
//
// # Where to look
//
//   - rest.go, http.go: the steps of a request, for each kind of API
//   - failure.go, failureresponse.go: status, headers and body of a 429 or another answer
//     that a REST API gives itself. The customized ones are in template/gatewayresponse.go
//     and template/mappingtemplate.go.
//   - throttle.go: the buckets of a stage. Their numbers are in template/throttle.go.
//   - restroute.go, httproute.go: which method or route a request matches
//   - restevent.go, httpevent.go, response.go, httpresponse.go: events and answers
//   - authorizer.go, policy.go: the answer of an authorizer
//   - function.go: an invocation, with its timeout and sizes
//   - cors.go, mock.go: preflights
//
// # Sources
//
// A comment names the page of the API Gateway developer guide that documents a behavior.
// Where no page does, "observed" and "measured" refer to these recordings and reports of
// the real service:
//
//   - events and answers that AWS recorded for its Lambda Test Tool
//     (github.com/aws/aws-lambda-dotnet), and those that LocalStack recorded in tests that
//     also run against AWS;
//   - dev.to/marcogrcr and loige.co on the answers to failing authorizers;
//   - rasp.hateblo.jp/entry/2021/05/13/222835 on a function's own timeout: a REST API
//     answers 502, and 504 only if the integration's limit comes first;
//   - zenn.dev/mn87 on authorizers, which that limit does not apply to;
//   - ministackorg/ministack#766 on the bodies that an HTTP API passes on as text, and
//     middleapi/standard-server#93 on its decoded paths;
//   - zaccharles.medium.com on the sizes of events and answers.
//
// "Assumed" behavior has no source. Where AWS may be more lenient than its sources say,
// this package is not.
//
// # What it does not do
//
// URLs have no stage, and an API has one stage. There are no caches, API keys, usage
// plans, request validation, resource policies or custom domains. REST APIs have REQUEST
// authorizers without a cache; HTTP APIs have no authorizers. Integrations are AWS_PROXY,
// and for preflights the MOCK that CDK writes. Throttling of a stage is exact here and best
// effort at AWS; an account has no throttle. Header names have the canonical case of
// net/http, not the case that the client sent.
//
// Web ACLs, networks, IAM roles and policies do not filter anything. A function without a
// permission for API Gateway is an error.
//
// A handler in this process is not isolated: memory and concurrency are not enforced, and a
// handler that ignores its deadline continues. There is no cold start. With a
// [lambdaenv.Pool] as its handler, a function has processes of its own: up to a maximum
// number, frozen between events and killed at the timeout, with a real cold start. Every
// version and alias of a function runs the one handler and gets the ARN of the function.
package gateway
