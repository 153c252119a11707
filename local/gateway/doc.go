// Package gateway is API Gateway on your machine: it serves the REST and HTTP APIs of
// a CloudFormation template, with the Lambda functions behind them in this process or in
// environments of their own.
//
// # Guarantee
//
// A template that loads is served as API Gateway serves it, and a template that this
// package would serve in another way does not load: [ParseTemplate] reports every
// resource, property, intrinsic function and variable that it does not know, all of
// them at once. Functions get the events that AWS sends, through the interface that
// AWS's library calls, and their answers are checked as strictly. A refusal by an
// authorizer goes through the template's gateway responses.
//
//	template, err := gateway.ParseTemplate(data)
//	g, err := gateway.New(template, gateway.Options{Functions: map[string]lambda.Handler{
//		"AuthorizerFunction": authorizer, // by logical id
//		"HandlerFunction":    handler,
//	}})
//	for _, api := range g.APIs() {
//		go http.ListenAndServe(addresses[api.ID], api)
//	}
//
// # How it is known
//
// Comments name the page of the API Gateway developer guide that says so. Where none
// does, "observed" and "measured" are what recordings and reports of the real service
// show:
//
//   - events and answers of the service as AWS recorded them for its Lambda Test Tool
//     (github.com/aws/aws-lambda-dotnet), and as LocalStack recorded them in tests that
//     also run against AWS;
//   - dev.to/marcogrcr and loige.co on the answers to failing authorizers;
//   - rasp.hateblo.jp/entry/2021/05/13/222835 on a function's own timeout: 502 from a
//     REST API, and 504 only where the integration's limit is reached first;
//   - zenn.dev/mn87 on authorizers, for which that limit does not hold;
//   - ministackorg/ministack#766 on the bodies that an HTTP API passes on as text, and
//     middleapi/standard-server#93 on its decoded paths;
//   - zaccharles.medium.com on the sizes of events and answers.
//
// "Assumed" is neither. Where AWS may be more lenient than what is known of it, this
// package is not.
//
// # What it does not do
//
// It has no stage in its URLs, one stage per API, and no caches, API keys, usage plans,
// request validation, resource policies or custom domains. It has REQUEST authorizers
// without a cache for REST APIs and none for HTTP APIs, and no integration but AWS_PROXY
// and, for preflights, the MOCK that CDK writes. A stage's throttling is exact here and
// best effort at AWS, and there is none of a whole account. Header names come in the
// canonical case of net/http and not as the client spelled them.
//
// Nothing is filtered by web ACLs, networks, or IAM roles and policies, except that a
// function without a permission for API Gateway is an error. Conditions are not
// evaluated. An attribute of a resource that no request meets has a made-up value: the
// address of a cache ends in .invalid.
//
// A handler in this process is not isolated from it: memory and concurrency are not
// enforced, and one that ignores its deadline goes on. A cold start is not imitated. With a
// [environment.Pool] for its handler a function has processes of its own: at most so many,
// which are frozen between events, and killed at its timeout; a cold start is a part of
// that. Every version and alias of a function runs the one handler, which is told the ARN
// of the function.
package gateway
