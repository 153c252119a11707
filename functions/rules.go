// Package functions holds the rules document that the functions are built with: the
// one file that a user of this repository edits.
package functions

import _ "embed"

// Rules is rules.json.
//
//go:embed rules.json
var Rules []byte
