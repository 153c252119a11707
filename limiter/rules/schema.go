package rules

import _ "embed"

// Schema is the JSON Schema (draft 2020-12) of a rules document. It finds most of the
// mistakes that Parse finds, while a document is being typed.
//
//go:embed schema.json
var Schema []byte
