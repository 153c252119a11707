// Package console serves the web pages of a local run, below /_weir/. The first page is for operators: who
// is limited now and why, the limits of a caller, the last refusals, and the rules. It asks packages
// why and operator once a second. The second one demonstrates the algorithms, the settlement of tokens and a ceiling by tier.
//
// # Guarantee
//
// The pages compute no decisions. Package scenario plays the demonstrations with the real limiter. The pages send no
// requests to the APIs, load nothing from other sites, and their policy forbids scripts and styles that are not files of
// this package. They show the names of callers as text, never as HTML.
//
// The caller must protect the handler from other sites and other machines. No deployed
// function imports this package.
//
// uPlot draws the charts (MIT, web/uplot/LICENSE). It is a copy of the version in
// package-lock.json; `make vendor` renews it.
package console
