// Package functions has the rules document, which the functions and the tests read.
package functions

import _ "embed"

// Rules is the content of rules.json.
//
//go:embed rules.json
var Rules []byte
