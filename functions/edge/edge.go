// Package edge has the function that runs in CloudFront in front of an API.
package edge

import _ "embed"

//go:embed viewer.js
var viewer string

// Viewer returns the JavaScript of the function, for the event viewer-request. It needs a KeyValueStore.
func Viewer() string { return viewer }
