// Package verify tests a deployment from outside, one fact after another.
//
// [Rows] lists the facts. A [Row] has a claim, the command with which a person tests the claim, and a
// function that tests it. [Deployment] describes the place to test: the URLs of its APIs and, optionally,
// its resources. [Run] tests the rows and returns one [Result] for each.
//
//	d := &verify.Deployment{URL: "https://….execute-api.eu-central-1.amazonaws.com/dev", Rules: parsed}
//	plan := d.Plan(verify.Rows())
//	results, err := verify.Run(ctx, plan, verify.Progress{})
//
// # Guarantee
//
// A row passes only if an answer of the deployment proves its claim. A row is skipped, with the reason, if
// it lacks something that it needs or if its precondition did not occur. Run sends at most [Plan.Requests]
// requests: GET requests and preflights. It never exhausts a limit that all callers share.
//
// The lists in infra/LIMITATIONS.md are the result of [Page].
package verify
