// Package operator implements the commands explain, usage and reset. [Operator.Explain] lists the
// limits that apply to a request, [Operator.Usage] returns the usage of a subject, and
// [Operator.Reset] deletes it. The local gateway serves them over HTTP ([Operator.Handler]), and
// [Gateway] asks them. For a deployment, the commands use an Operator over its store.
//
// Explain and Usage change and charge nothing. They show the state in the store, in which a whole lease
// counts as charged. They cannot show the counts in an environment's own memory: counts that are not
// synchronized yet, and the local share during an outage. The notes of an answer list the counts that it
// omits.
//
// A reset takes effect at once in the store and in the process that answers. For up to a second, other
// environments can still refuse from their denial caches, and can still use their leases.
//
// The types here are the JSON of weir explain, usage and reset. New versions may add fields, but do
// not rename a field or change its meaning. No deployed function contains this package.
package operator
