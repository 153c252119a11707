// Package rules decides which limits apply to which requests. [Parse] reads a document, and
// [Rules.Charges] returns the charges of a request.
//
// A document is strict JSON. Unknown fields, duplicates, trailing data and impossible values are
// mistakes, and Parse reports all of them at once, each with its path. Rules are immutable and safe
// for concurrent use.
//
// Every rule whose endpoint and method match a request applies, in file order. A rule applies its
// limits under the caller's tier, or those under "*" if it does not name the tier, and those under
// "global". Rules and the API's router share one reading of a path, [Path], so that two spellings
// of an endpoint are one endpoint.
//
// RULES.md documents each field, its default and its bounds. [Schema] is the JSON Schema of a
// document, for editors. Package live reloads rules while requests arrive.
package rules
