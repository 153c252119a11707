// Package stack is Weir as it is deployed: a REST API and an HTTP API in front of one
// handler, the limits of package ratelimit on both, and what shows how they do. One stack
// is one stage, and stages share nothing.
//
// It is an example to edit: your API takes the place of the sample's routes in apis.go.
package stack
