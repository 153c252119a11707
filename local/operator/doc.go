// Package operator answers an operator's questions about the limits: which of them a request
// meets ([Operator.Explain]), how those of a subject stand ([Operator.Usage]), and it forgets
// what a subject was charged ([Operator.Reset]). It is one implementation for a process that
// decides requests itself, which serves it by HTTP ([Operator.Handler], asked by [Client]),
// and for a command that opens the store of a deployment.
//
// Explain and Usage change nothing and charge nobody. What they tell is what the store
// holds: a lease counts as charged, and what an environment counts in its own memory (cells,
// what it has not synchronized, its share while the store fails) is told only by that
// environment itself. Every answer says so in its notes, where it matters.
//
// A reset acts at once in the store and in the process that is asked. Other environments may
// refuse from memory for up to a second, and serve a lease for as long.
//
// The types here are the JSON that weir explain, usage and reset print: fields are added to
// them, and none is renamed or changes its meaning. Nothing of this package is in a function
// that is deployed.
package operator
