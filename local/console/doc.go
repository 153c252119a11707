// Package console is the web page of a local run, which `make run` serves at /_weir/: it
// sends requests to the running gateway and draws what becomes of them, and it
// demonstrates the algorithms.
//
// # Guarantee
//
// What it shows is what runs. Requests are real ones, sent to the listeners of the APIs
// with tokens that they verify; demonstrations are played by package scenario, which asks
// the limiter. The page computes neither.
//
// It cannot be made to send anywhere else than to the endpoints of its Options, nor more
// than [MaxCount] requests a run, at [MaxRate] a second, in [MaxRuns] runs at a time. Tokens
// never reach the page. It loads nothing from other sites, and its policy forbids
// scripts and styles that are not files of this package.
//
// Who mounts it keeps other sites and other machines out. No function that is deployed
// imports it.
//
// The charts are drawn by uPlot (MIT, web/uplot/LICENSE), a copy of what package-lock.json
// pins; `make vendor` renews it.
package console
