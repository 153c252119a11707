// Package functions embeds rules.json, the rules document that the functions are built with. Edit that
// file to change the limits, and package sample to change the API.
package functions

import _ "embed"

// Rules is rules.json.
//
//go:embed rules.json
var Rules []byte
