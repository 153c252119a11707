package rules

import _ "embed"

// Schema is the JSON Schema (draft 2020-12) of a rules document. Editors use it to show most of the
// mistakes that Parse finds while the author types.
//
//go:embed schema.json
var Schema []byte
