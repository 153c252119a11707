// Package top counts the callers that are refused most, in lines of events (package limiter/decisionlog) or of
// the metrics log (package limiter/telemetry), whatever their number.
//
// It counts by the space-saving algorithm of Metwally, Agrawal and El Abbadi: 1,000 callers and
// limits are kept, and one more takes the place of the least, with its count. So a count is too high
// by at most what Refused.Error says, which is less than a thousandth of all, and a caller
// that was refused more often than that is in the table. A sliding time is ten such counters, one for
// each tenth of it: a tenth in which a caller was refused less often than that may be missing in
// its count.
package top
