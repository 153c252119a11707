// Package verify tests a deployment from outside, one fact after another: it is the command weir verify.
//
// [Rows] lists the facts. A [Row] has a claim, the command with which a person tests it, and a function that tests it.
// [Deployment] describes the place to test. [Run] tests the rows and returns one [Result] for each.
//
// A row passes only if an answer of the deployment proves its claim. A row is skipped, with the reason, if it lacks
// something that it needs or if its precondition did not occur. Run sends at most [Plan.Requests] requests, and changes
// nothing unless [Deployment.Write] is set. It never exhausts a limit that all callers share.
package verify
