// Package e2e deploys a throw-away stack, verifies it and deletes it. The stack is the stack of infra, or the
// template of a release with an API and a function with the layer. An issuer of tokens is a stack of its own.
//
//	p := &e2e.Runner{Config: config, Deploy: cdk, Verify: weir, Out: os.Stdout, Log: os.Stderr}
//	err := p.Run(ctx, "dynamodb")
//
// # Guarantee
//
// Run deletes what it deployed: after a success, a failure of any step, and an interrupt. It also deletes
// what CloudFormation retains. It prints the name of the stack before it deploys. It prints what it could
// not delete, with the command that deletes it, and returns an error then.
package e2e
