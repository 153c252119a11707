// Package stack is the deployment of this repository: a REST API and an HTTP API in front of
// one handler, the limits of package ratelimit on both, alarms and a dashboard. One stack is
// one stage, and stages share nothing.
//
// Edit it for your API: replace the sample's routes in apis.go.
package stack
