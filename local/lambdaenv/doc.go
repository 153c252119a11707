// Package lambdaenv runs functions as AWS Lambda does, on this machine. An environment is a
// process of a function's bootstrap, with the Runtime API that it calls.
//
// # Guarantee
//
// A process has the same interface as a custom runtime on Lambda: the Runtime API, version 2018-06-01.
// It gets one event at a time. It gets the next event only after it has answered the event and requested
// another one. Between events it is frozen: no goroutine runs and no timer fires. It gets the variables
// of the function and those of Lambda, but no variables of its parent. With [Options].Concurrency a
// process handles several events at once and is not frozen, as on Lambda Managed Instances.
//
// External extensions have the interface of the Extensions API, version 2020-01-01. The process starts when
// all extensions have registered. An event ends when the process and the extensions that registered for
// INVOKE have requested the next one. Then the extensions are frozen, too. An extension that ends, or that
// reports an error, fails the current event and ends the environment. At the end of an environment, the
// process gets SIGTERM, and then each extension that registered for SHUTDOWN gets that event with the reason.
// The parts of a streamed answer arrive while the process writes them. An answer can end with the trailers
// that report an error.
//
// Every failure returns an error with its cause. Failures are an error that the function reports,
// an answer that is too large or incomplete, the end of a process, and a missed deadline. No process
// outlives its parent.
//
// An [Environment] ends with its process. A [Pool] has all environments of a function. If an event
// arrives and no environment is idle, the pool starts an environment, up to a maximum. It replaces
// environments that end. If several environments are idle, it uses the most recently used one.
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
// There are no internal extensions, Telemetry API, traces, client contexts or Cognito identities. With
// [Options].Concurrency an extension cannot register for INVOKE. The processes share this machine's files,
// network, memory and processors. A function with the layer has its own folder of the layer's file.
// A cold start counts towards the timeout of the invocation. (Lambda allows ten additional seconds for it.) A failed init is not retried. The environments of a Pool handle one event
// at a time. Systems other than Linux can neither freeze a process nor end it with its parent.
package lambdaenv
