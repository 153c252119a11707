// Package top counts the callers that are refused most, in lines of events (package limiter/decisionlog) or of
// the metrics log (package limiter/telemetry), whatever their number.
//
// It uses the space-saving algorithm of Metwally, Agrawal and El Abbadi. It keeps 1,000 pairs of
// caller and limit. A new pair replaces the one with the least count and inherits that count. So a
// count is too high by at most Refused.Error, which is less than a thousandth of the total. Every
// caller refused more often than that is in the table. A sliding period uses ten such counters, one
// for each tenth. A count may lack a tenth in which the caller was refused less often than that.
package top
