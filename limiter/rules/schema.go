package rules

import _ "embed"

// Schema is the JSON Schema (draft 2020-12) of a rules document. An editor uses it to show mistakes
// while the author types: most of the mistakes that Parse finds.
//
//go:embed schema.json
var Schema []byte
