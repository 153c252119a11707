// Package top finds the callers with the most refusals. It reads lines of the decision log (package
// limiter/decisionlog) or of the metrics log (package limiter/telemetry). Its memory is bounded for
// any number of callers.
//
// It uses the space-saving algorithm of Metwally, Agrawal and El Abbadi, and keeps 1,000 pairs of caller
// and limit. A new pair replaces the pair with the least count and inherits that count. So the count of
// a new pair can be too high. The maximum error is Refused.Error, which is less than a thousandth of the
// total. The table contains every caller with more refusals than a thousandth of the total.
//
// A sliding period has ten counters, one for each tenth of the period. If a caller has less than a
// thousandth of the refusals in a tenth of the period, this tenth is possibly missing in the caller's
// count.
package top
