// Package console serves the web page of a local run. `make run` serves it at /_weir/. The page
// sends requests to the running gateway and draws a chart of the answers. It shows the usage of a
// caller, and demonstrates the algorithms and the settlement of tokens.
//
// # Guarantee
//
// The page computes no decisions. Its requests are real: this package sends them to the
// listeners of the APIs, with tokens that the APIs verify. Package scenario plays the
// demonstrations with the real limiter.
//
// The page can send only to the endpoints in the Options. A run has at most [MaxCount]
// requests, at most [MaxRate] a second, and at most [MaxRuns] runs are concurrent. Tokens never
// reach the page. The page loads nothing from other sites, and its policy forbids scripts and
// styles that are not files of this package.
//
// The caller must protect the handler from other sites and other machines. No deployed
// function imports this package.
//
// uPlot draws the charts (MIT, web/uplot/LICENSE). It is a copy of the version in
// package-lock.json; `make vendor` renews it.
package console
