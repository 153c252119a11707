// Package console serves the web pages of a local run, below /_weir/. The first page is for operators: who
// is limited now and why, the limits of a caller, the last refusals, and the rules. It asks packages
// why and operator once a second. Another page sends requests to the running gateway and draws a chart of the
// answers. The third one demonstrates the algorithms and the settlement of tokens.
//
// # Guarantee
//
// The pages compute no decisions. Their requests are real: this package sends them to the
// listeners of the APIs, with tokens that the APIs verify. Package scenario plays the
// demonstrations with the real limiter.
//
// A page can send only to the APIs in the Options, with a method of their endpoints. A run has at most [MaxCount]
// requests, at most [MaxRate] a second, and at most [MaxRuns] runs are concurrent. Tokens never
// reach a page. The pages load nothing from other sites, and their policy forbids scripts and
// styles that are not files of this package. They show the names of callers as text, never as HTML.
//
// The caller must protect the handler from other sites and other machines. No deployed
// function imports this package.
//
// uPlot draws the charts (MIT, web/uplot/LICENSE). It is a copy of the version in
// package-lock.json; `make vendor` renews it.
package console
