// Package lambdaenv runs functions as AWS Lambda does, on this machine. An environment is a
// process of a function's bootstrap, with the Runtime API that it calls.
//
// # Guarantee
//
// A process finds what a custom runtime finds at Lambda, with the interface of 2018-06-01. It
// gets one event at a time, and the next one only after it has answered and requested
// another. Between events it is frozen: no goroutine runs and no timer fires. It gets its own
// variables and those of Lambda, and none of its parent's. Every failure is an error that
// names its cause: an error that the function reports, an answer that is too large, a process
// that ends, a deadline that passes. No process outlives its parent.
//
// An [Environment] ends with its process. A [Pool] is all environments of a function. It
// starts one when an event finds none idle, up to a maximum, and replaces those that end. Of
// the idle ones it uses the most recent.
//
//	p, err := lambdaenv.NewPool(lambdaenv.PoolOptions{
//		Bootstrap: "dist/x86_64/authorizer/bootstrap",
//		Name:      "authorizer",
//		Variables: []string{"STORE=memory", "NAMESPACE=dev"},
//		Max:       10,
//	})
//	if err != nil {
//		return err
//	}
//	defer p.Close()
//	answer, err := p.Invoke(ctx, event)
//
// # What it does not do
//
// There are no extensions, streamed answers, traces, client contexts or Cognito identities. A
// process shares this machine's files, network, memory and processors. A cold start counts
// towards the time of the invocation; Lambda allows ten seconds more. A failed init is not
// tried again. Systems other than Linux cannot freeze a process, nor end it with its parent.
package lambdaenv
