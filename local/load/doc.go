// Package load sends a bounded number of requests in a bounded time, and measures the answers.
//
// With a rate (an open loop) the start times are fixed in advance, at equal or exponentially
// distributed distances. Independent callers send like this. Latencies count from the planned start
// times, so a slow answer shows in all requests that it delays (no coordinated omission). A request
// under way or not sent when a run ends counts with its wait so far. Its latency is then a lower
// bound. Without a rate (a closed loop) each client sends its next request after its last answer.
//
// Memory does not grow with the number of requests: latencies are in histograms of three significant
// digits.
package load
