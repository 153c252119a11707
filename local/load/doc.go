// Package load sends a bounded number of requests in a bounded time, and measures the answers.
//
// A load with a rate is an open loop, which models independent callers. Its start times are fixed in
// advance, at equal or exponentially distributed intervals. Latencies count from the planned start
// times, so a slow answer increases the latency of all requests that it delays (no coordinated
// omission). When the run ends, some requests have not ended or have not been sent. The latency of such
// a request is the wait so far, which is a lower bound.
//
// A load without a rate is a closed loop. Each client sends its next request after it receives the
// answer to the previous one.
//
// Memory does not grow with the number of requests: latencies are in histograms of three significant
// digits.
package load
