// Package rules decides which limits apply to which requests. [Parse] reads a document, and
// [Rules.Charges] returns the charges of a request.
//
// A document is strict JSON. Unknown fields, duplicates, trailing data and impossible values are
// mistakes. Parse reports all mistakes at once, each with its path. Rules are immutable and safe for
// concurrent use.
//
// Every rule whose endpoint and method match a request applies, in file order. A rule applies the
// limits of the caller's tier and the limits under "global". If the rule does not name the caller's
// tier, it applies the limits under "*" instead. Back ends read some paths differently, so a [Path] can
// have several readings, and a rule matches a request if it matches one of them.
//
// RULES.md documents each field, its default and its bounds. [Schema] is the JSON Schema of a
// document, for editors. Package live reloads rules while requests arrive.
package rules
