// Package rules reads the document that says which limits apply to which requests,
// and makes charges from it.
//
// A document is strict JSON. Unknown fields, duplicates, trailing data and impossible
// values are errors, and all errors are reported together, each with its path. What
// has been read is immutable and safe for concurrent use.
//
// Every rule whose endpoint and method match a request applies, in file order. Of a
// rule's limits those under the caller's tier apply, or those under "*" if the rule
// does not name the tier, and those under "global". Matching and the API's router use
// one reading of a path, [Path]: an endpoint spelled another way is the same endpoint.
//
// [Live] are rules that change while requests come: it reads a [Source] again within a minute,
// in a request and not in the background, keeps what is in force when the source fails or has
// a document with mistakes, and never goes back to a lower version. What a request pays for
// it is two atomic loads.
//
// RULES.md has each field of a document, its default and its bounds. [Schema] is the JSON Schema of a document, for editors.
package rules
