// Package telemetry writes what is decided to the log: metrics, which CloudWatch reads out
// of it, and who is refused.
//
// A [Recorder] is told of every request and writes at most one line of metrics a second,
// in CloudWatch's embedded metric format, to a namespace for each deployment: "Weir/" and its
// name, see [Namespace]. A nil Recorder records nothing.
//
// # Totals
//
// They have no dimensions. Each request is one of Allowed, Refused, Unauthorized and Failed.
//
//	Allowed          Count         let through, also if no limit applies; it may have waited for
//	                               its turn in a leaky bucket, and then have gone
//	Refused          Count         over a limit: 429
//	Unauthorized     Count         bad or missing credentials: 401
//	Failed           Count         no decision, a credential that could not be checked, or the
//	                               store failed and a limit denies then: 500, 503
//	Degraded         Count         of all four: the store failed, and it was not the limits that
//	                               decided, or not all of them; a busy subject is no failure
//	LocalFull        Count         of Failed: in an outage the environment had no room to count one
//	                               more caller by itself
//	Busy             Count         of Refused: the subject was charged too often at once
//	FromCache       Count         of Refused: refused without a store call
//	Shadowed         Count         of Allowed and Refused: a limit with Shadow would have refused
//	Latency          Milliseconds  how long the decisions of Allowed and Refused took, identifying
//	                               the caller included
//	StoreCalls       Count         Decision.StoreCalls; a call may be several requests of DynamoDB
//	StoreLatency     Milliseconds  Decision.StoreTime, of requests with store calls
//	Overshoot        Count         Decision.Overshoot, of limits with Spread.Sync or Adaptive: the largest
//	RefundsGiven     Count         charges that were given back: of requests that another limit
//	                               refused, and by Receipt.Refund
//	RefundsDropped  Count         charges that were not, for it would not have been safe, or the
//	                               store failed
//	Clamped           Count         states further ahead than honest clocks get, which were clamped
//	RulesRefused     Count         documents of rules that were not put into force, by each
//	                               environment that read one, or could not start with it
//	RulesVersion     None          of the rules in force; environments that have not got the newest
//	                               yet make the minimum lower than the maximum
//	RulesAge         Seconds       since it was last known that their source has no other; an hour
//	                               and more where that was never known; missing where nobody asks
//	                               the source again
//	ClockSkew        Milliseconds  how far the environment's clock is off the store's at least;
//	                               missing while nothing is known, and where the store is this
//	                               process
//	EventsDropped    Count         events that were lost on their way to a broker (package events)
//
// A line has always Allowed and Refused, so that ratios have their denominators, and of the
// others those that are not zero: an alarm on them takes missing data for good. Of more than
// 50 values of a latency a line has a random 50. What ends a function before it can decide,
// and is not its rules, is in no metric.
//
// # By rule
//
// These have one dimension, Rule, which is Limit.Rule: "GET /api/v1/search". They are written
// if Recorder.Rules has named the rules.
//
//	RuleAllowed   Count  requests that the rule has charged, and that were let through; also if
//	                     the rule is tried out
//	RuleRefused   Count  requests that it refused: of several rules that refuse, the one whose
//	                     limit speaks
//	RuleShadowed  Count  requests that it would have refused, were it not tried out
//
// So RuleRefused / (RuleAllowed + RuleRefused) is the rejection rate of a rule, and
// RuleShadowed / RuleAllowed what it would be. The first ten rules of the document are counted
// apart, and the others as "(others)": put those first that you want to see. A name that is not
// ASCII, or longer than 100 bytes, is cut and ends in a hash. A line has room for one rule, so
// they take turns: what is counted of a rule may be written some seconds late, by up to one for
// each rule.
//
// No dimension says which store it was, for a deployment has one, and none which outcome: that
// is what the metrics are called.
//
// # Who is refused
//
// At most once a second there is a line for each of the ten callers that were refused most
// by one limit, and one without a subject for the rest:
//
//	{"weir":"refused","subject":"3391c2a9a8625702","limit":"search","refused":17}
//	{"weir":"refused","refused":230}
//
// A rule of Contributor Insights takes $.subject for its key and the sum of $.refused, where
// $.weir is "refused" and $.subject is present. The subject is a keyed [SubjectHash], so no line
// names a caller; limit is missing if none speaks.
//
// # What else is in the log
//
// Lines of other loggers, such as one for each credential that is refused, would grow with
// what clients send. [NewRateLimitedHandler] writes one line of each message a second.
//
// # When
//
// Nothing runs in the background, because Lambda freezes it. The first decision after a
// quiet second is written at once; later ones wait for the first decision when a second is
// over. What waited for longer than a minute is then written apart, under its own time;
// the lines of refused callers have the time at which they are written.
//
// What has waited when an environment ends is lost: up to a second's decisions, and not the
// first; of rules, up to eleven seconds'. Of more than 1,000 pairs of caller and limit between two writes, those that came
// later are counted with the rest. CloudWatch may count a line twice.
//
// # What it costs
//
// A line of one decision has 640 bytes, and 12 more for each further pair of latencies. The log
// of an environment grows
//
//	by one request a second        640 B/s                     1.7 GB a month
//	by a hundred and more          640 + 49 × 12 = 1.25 kB/s   3.3 GB a month
//	whatever is sent to it         at most 3.5 kB/s            9.1 GB a month
//
// by these lines alone: what else a function logs, such as why a credential was refused, comes
// on top. They are never more than one a request, and one of 240 bytes for each further rule that
// charges it: a million requests that one rule charges are at most 0.64 GB, be they spread over
// however many environments, and refused ones 120 B more, for the lines of callers.
//
// CloudWatch asks $0.30 a month for each metric that had a value: for the totals at most 21 a
// deployment ($6.30), and 2 or 3 for each of at most eleven names of rules ($6.60 to $9.90),
// however many callers, environments and rules there are. Five rules and all totals are $9.30.
//
// Lambda takes these lines for level INFO, so a function that is set to log less sends no
// metrics.
package telemetry
