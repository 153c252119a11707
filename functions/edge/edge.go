// Package edge contains what runs in front of an API, at a CDN: the viewer function of a CloudFront distribution, in
// JavaScript, and the list from which it refuses requests. CloudFront runs no Go.
//
// The list is in a KeyValueStore, which the function can only read: the [Config] under [ConfigKey], and an [Entry] for
// each refused caller under a hash of the caller ([Config.Key]). A change acts at all locations after some seconds.
//
// Package infra imports this package, so it imports only the standard library.
package edge

import _ "embed"

//go:embed viewer.js
var viewer string

// MaxViewer is the maximum length of a viewer function in bytes:
// https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/cloudfront-limits.html#limits-functions
const MaxViewer = 10 << 10

// AnsweredField is a field of the refusals of the viewer function. Those of the limiter do not have it.
const AnsweredField = "Weir-Edge"

// Viewer returns the viewer function. It writes the address of the client into contract.ViewerAddressField, and refuses
// the callers in the list. Without a KeyValueStore, it refuses nobody.
func Viewer() string { return viewer }
