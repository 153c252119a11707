// Package lambdaenv is the execution environments of Lambda on this machine: processes
// of a function's bootstrap, and the Runtime API that they talk to.
//
// # Guarantee
//
// A process meets what a custom runtime meets at Lambda, by the interface of 2018-06-01:
// one event at a time, and none before it has answered the last one and asked for the
// next. Between events it is frozen: no goroutine runs, no timer fires. It sees the
// variables that it is given and those of Lambda, and nothing of its parent's. What goes
// wrong comes as an error that says what it was: a function that reports an error, an
// answer that is too large, a process that ends, a deadline that passes. No process
// outlives the one that has started it, however that ends.
//
// An [Environment] whose process has ended stays so. A [Pool] is all environments of a
// function: it starts one when an event finds none idle, up to a maximum, and one in the
// place of one that has ended. Of the idle ones it takes the one used most recently.
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
// No extensions, streamed answers, traces, client context or Cognito identity. A process
// has this machine's files, network, memory and processors. A cold start takes from the
// invocation's own time, where Lambda has ten seconds for it, and an init that fails is not
// tried again. Other systems than Linux cannot freeze a process, nor end it with its parent.
package lambdaenv
