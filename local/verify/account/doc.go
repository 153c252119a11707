// Package account tests the resources of a deployed CloudFormation stack with calls of AWS.
//
// [Open] reads the stack: its outputs, its resources and its template. A [Stack] then tests the rows of
// package verify that need an account:
//
//	stack, err := account.Open(ctx, config, "weir-dev")
//	observation := stack.Check(ctx, "drift")
//
// CloudFormation compares the resources with the template. The other rows test what it cannot compare, such as policies and
// metrics. In a policy, a value that the template computes, such as the ARN of a table, matches only an ARN of the table
// that the stack created.
//
// # Guarantee
//
// A [Stack] changes nothing unless a row has the need --write. It undoes each change when the row ends,
// even if the context has ended. [Stack.Left] lists the changes that it could not undo, with the command
// that undoes each.
package account
