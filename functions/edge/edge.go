// Package edge contains what runs in front of an API, at a CDN: the viewer function of a CloudFront distribution, in
// JavaScript. CloudFront runs no Go.
//
// Package infra imports this package, so it imports only the standard library.
package edge

import _ "embed"

//go:embed viewer.js
var viewer string

// MaxViewer is the maximum length of a viewer function in bytes:
// https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/cloudfront-limits.html#limits-functions
const MaxViewer = 10 << 10

// Viewer returns the viewer function. It writes the address of the client into contract.ViewerAddressField.
func Viewer() string { return viewer }
