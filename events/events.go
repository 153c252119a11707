// Package events has sample events of AWS, and two of the function log: a report and lines of an access
// log. The name of another file has the integration and the caller.
// jwks.json has the public key for the token in the events; the private key was deleted. The tests of
// functions/lambdahttp send each event to a function.
package events

import "embed"

// Files are the events and jwks.json.
//
//go:embed *.json
var Files embed.FS

// The credentials in the events.
const (
	Issuer   = "https://issuer.example"
	Audience = "weir"
	APIKey   = "weir_sample_enterprise_key"
)
