// Package load sends a bounded number of requests in a bounded time, and measures how they
// are answered.
//
// With a rate (an open loop) the instants at which requests are to begin are fixed beforehand,
// in equal or in exponentially distributed distances, as they are where callers do not know
// of each other. Latencies count from those instants, so that what an answer keeps waiting
// is seen in the figures (they are not subject to coordinated omission). What is under way or not
// sent when a run ends is among the latencies of all with what it had waited by then, so that they
// are the least that can be. Without a rate (a closed loop) each client sends a request when it has
// the answer to its last one.
//
// Memory does not grow with the number of requests: latencies are in histograms of three significant
// digits.
package load
