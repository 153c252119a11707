// Package environment is one execution environment of Lambda on this machine: the
// process of a function's bootstrap, and the Runtime API that the process talks to.
//
// # Guarantee
//
// The process meets what a custom runtime meets at Lambda, by the interface of
// 2018-06-01: one event at a time, and none before it has answered the last one and
// asked for the next. It sees the variables that it is given and those of Lambda, and
// nothing of its parent's. What goes wrong comes as an error that says what it was: a
// function that reports an error, an answer that is too large, a process that ends, a
// deadline that passes. An environment whose process has ended stays so; its owner
// starts another.
//
//	e, err := environment.Start(ctx, environment.Options{
//		Bootstrap: "dist/x86_64/authorizer/bootstrap",
//		Name:      "authorizer",
//		Variables: []string{"STORE=memory", "NAMESPACE=dev"},
//		Output:    os.Stderr,
//	})
//	if err != nil {
//		return err
//	}
//	defer e.Close()
//	answer, err := e.Invoke(ctx, event)
//
// # What it does not do
//
// No extensions, streamed answers, traces, client context or Cognito identity. The
// process has this machine's files, network, memory and processors.
package environment
