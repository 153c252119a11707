// Package functions embeds rules.json, the rules document of the functions. To change the limits,
// edit that file. .github/ADOPTING.md describes how to use your own API.
package functions

import _ "embed"

// Rules is the content of rules.json.
//
//go:embed rules.json
var Rules []byte
