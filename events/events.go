// Package events holds sample events, as AWS sends them: names are the integration,
// who calls, and the case. jwks.json has the public key of the token in them, whose
// private key is nowhere. The tests of functions/lambdahttp feed each to a function.
package events

import "embed"

// Files are the events, and jwks.json.
//
//go:embed *.json
var Files embed.FS

// What the credentials in the events say.
const (
	Issuer   = "https://issuer.example"
	Audience = "weir"
	APIKey   = "weir-sample-enterprise-key"
)
