// Package events has sample events of AWS. Their names are the integration, the caller and the
// case. jwks.json has the public key of the token in them; its private key does not exist any more. The
// tests of functions/lambdahttp send each event to a function.
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
	APIKey   = "weir-sample-enterprise-key"
)
