// Package gateway is API Gateway on your machine. It serves the REST and HTTP APIs of Weir's stack. The Lambda functions run
// in this process.
//
// # Guarantee
//
// The gateway serves routes as API Gateway does. Functions are [lambda.Handler] values and receive the same events as on AWS.
// The gateway checks their answers as strictly as AWS does. If the authorizer denies a request, the stack's gateway responses
// define the answer.
//
//	stack, err := gateway.ReadStack(template) // that infra synthesizes
//	apis, err := gateway.New(stack, []string{"GET /items/{id}"}, gateway.Options{Authorizer: authorizer, Handler: handler})
//	for i, api := range apis {
//		go http.ListenAndServe(addresses[i], api)
//	}
//
// # Where to look
//
//   - rest.go, http.go: the steps of a request, for each kind of API
//   - failure.go, failureresponse.go: status, headers and body of a 429, and of other
//     answers that a REST API creates without a function
//   - stack.go: what is read of a template
//   - throttle.go: the token buckets of a stage
//   - route.go: which method or route a request matches
//   - restevent.go, httpevent.go, response.go: events and answers
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
// Of a template it reads the functions' variables and timeouts, the stages and the gateway responses. The tests of infra
// check the rest. URLs have no stage. All routes have the authorizer and the handler of the stack. All custom domains have the
// same mappings, [Options].BasePaths. There are no caches, API keys, usage plans, request validation, resource policies,
// stage variables or binary media types. Nothing answers preflights. Throttling of a
// stage is exact here, but best effort on AWS. The throttle of an AWS account is missing.
// Header names have the canonical case of net/http, not the case that the client sent.
//
// A handler in this process is not isolated: memory and concurrency are not enforced, and a
// handler that ignores its deadline continues. There is no cold start.
package gateway
