// Package edge has the function that runs in CloudFront in front of an API.
package edge

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
)

//go:embed viewer.js
var viewer string

// Key returns the key of a block in the KeyValueStore: of ip: and an address or its IPv6 network, or of apikey: and a key.
func Key(subject string) string {
	sum := sha256.Sum256([]byte(subject))
	return hex.EncodeToString(sum[:])
}

// Viewer returns the JavaScript of the function, for the event viewer-request. It needs a KeyValueStore.
func Viewer() string { return viewer }
