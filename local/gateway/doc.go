// Package gateway is API Gateway on your machine. It serves the REST and HTTP APIs of a
// CloudFormation template. The Lambda functions run in this process.
//
// # Guarantee
//
// The gateway serves a template as API Gateway does. Package template rejects every
// template that this package would serve in another way. Functions are [lambda.Handler]
// values and receive the same events as on AWS. The gateway checks their answers as
// strictly as AWS does. If an authorizer denies a request, the template's gateway
// responses define the answer.
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
//   - failure.go, failureresponse.go: status, headers and body of a 429, and of other
//     answers that a REST API creates without a function. template/text.go reads the customized answers.
//   - throttle.go: the token buckets of a stage
//   - restroute.go, httproute.go: which method or route a request matches
//   - restevent.go, httpevent.go, response.go, httpresponse.go: events and answers
//   - authorizer.go: the answer of an authorizer
//   - function.go: an invocation, with its timeout and sizes
//
// # Sources
//
// A comment names the page of the API Gateway developer guide that documents a behavior.
// "Recorded" behavior is in testdata/recordings: requests, events and answers that tests of other
// projects recorded on AWS. TestRecordings replays them. README.md in that folder lists the sources
// and the differences of this package.
//
// "Observed" and "measured" refer to these recordings and to these reports of the real service:
//
//   - dev.to/marcogrcr and loige.co on the answers to failing authorizers;
//   - rasp.hateblo.jp/entry/2021/05/13/222835 on timeouts: a REST API answers 502 if the
//     function's timeout ends first, and 504 if the integration's timeout ends first;
//   - zenn.dev/mn87 on authorizers: the integration's timeout does not apply to them;
//   - ministackorg/ministack#766 on the bodies that an HTTP API passes on as text, and
//     middleapi/standard-server#93 on its decoded paths;
//   - zaccharles.medium.com on the sizes of events and answers.
//
// "Assumed" behavior has no source. If AWS may be more lenient than its documentation,
// this package follows the documentation.
//
// # What it does not do
//
// URLs have no stage, and an API has one stage. All custom domains have the same mappings,
// [Options].BasePaths. There are no caches, API keys, usage plans, request validation, resource policies,
// stage variables or binary media types. REST APIs have REQUEST
// authorizers without a cache and identity sources; HTTP APIs have no authorizers. Integrations are AWS_PROXY.
// Nothing answers preflights: a template with corsOrigins is an error. Throttling of a
// stage is exact here, but best effort on AWS. The throttle of an AWS account is missing.
// Header names have the canonical case of net/http, not the case that the client sent.
//
// Access logs and their subscriptions are ignored.
//
// Web ACLs, networks, IAM roles and policies do not filter anything. A function without a
// permission for API Gateway is an error.
//
// A handler in this process is not isolated: memory and concurrency are not enforced, and a
// handler that ignores its deadline continues. There is no cold start. All
// versions and aliases of a function run the same handler and get the ARN of the function.
package gateway
