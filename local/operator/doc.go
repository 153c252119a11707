// Package operator answers an operator's questions about limits: which limits apply to a request
// ([Operator.Explain]), and the usage of a subject ([Operator.Usage]); and it resets the usage of a
// subject ([Operator.Reset]). A process that decides requests serves it over HTTP
// ([Operator.Handler], with [Client] as its client); a command uses it over the store of a
// deployment.
//
// Explain and Usage change nothing and charge nobody. They show what the store holds. A lease counts
// as charged. What an environment counts in its own memory (cells, counts that are not synchronized,
// its share while the store fails) is known to that environment alone. The notes of an answer name
// what it leaves out.
//
// A reset takes effect at once in the store and in the process that answers. Other environments may
// refuse from their denial caches for up to a second, and serve a lease for as long.
//
// The types here are the JSON of weir explain, usage and reset: fields are added, and none is
// renamed or changes its meaning. No deployed function has this package.
package operator
