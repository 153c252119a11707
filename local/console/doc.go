// Package console is the web page of a local run. `make run` serves it at /_weir/. The page
// sends requests to the running gateway and charts the answers. It also demonstrates the
// algorithms.
//
// # Guarantee
//
// The page shows what runs and computes nothing itself. Requests are real: this package
// sends them to the listeners of the APIs, with tokens that the APIs verify. Package
// scenario plays the demonstrations with the real limiter.
//
// The page can only send to the endpoints of its Options, at most [MaxCount] requests a run,
// [MaxRate] a second and [MaxRuns] runs at a time. Tokens never reach the page. It loads
// nothing from other sites, and its policy forbids scripts and styles that are not files of
// this package.
//
// The caller that mounts the handler must keep out other sites and other machines. No
// deployed function imports this package.
//
// uPlot draws the charts (MIT, web/uplot/LICENSE). It is a copy of the version in
// package-lock.json; `make vendor` renews it.
package console
