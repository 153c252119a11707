// Package console contains only tests. They run the console of `weir serve` in a browser, and
// check what the page shows.
package console
