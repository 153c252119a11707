// Package stack is the deployment of this repository: a REST API and an HTTP API with one handler,
// the limits of package ratelimit on both, alarms, and a dashboard. Each stage is one stack, and
// stages share nothing.
//
// Edit it for your API (.github/ADOPTING.md).
package stack
