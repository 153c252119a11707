// Package telemetry writes metrics and the most refused callers to the log. CloudWatch extracts the
// metrics.
//
// A [Recorder] gets the outcome of every request and writes at most one line of metrics a second, in
// CloudWatch's embedded metric format. Each deployment has a namespace: "Weir/" and its name, see
// [Namespace]. A nil Recorder records nothing.
//
// # Totals
//
// Totals have no dimensions. Each request counts as one of Allowed, Refused, Unauthorized and Failed.
//
//	Allowed         Count         allowed, also if no limit applies or if the request then left
//	                              the queue of a leaky bucket
//	Refused         Count         over a limit: 429
//	Unauthorized    Count         bad or missing credential: 401
//	Failed          Count         no decision, a credential that could not be checked, or a limit
//	                              denies because the store fails: 500, 503
//	Degraded        Count         of all four: decided without the store's answer, at least in part;
//	                              a busy subject does not count
//	LocalFull       Count         of Failed: in an outage the environment had no room to count one
//	                              more caller
//	Busy            Count         of Refused: the subject was charged too often at once
//	FromCache       Count         of Refused: refused by the denial cache, without a store call
//	Shadowed        Count         of Allowed and Refused: a limit in shadow mode would have refused
//	Latency         Milliseconds  time of a decision of Allowed and Refused, the identification of
//	                              the caller included
//	StoreCalls      Count         Decision.StoreCalls; a call may be several DynamoDB requests
//	StoreLatency    Milliseconds  Decision.StoreTime of requests with store calls
//	Overshoot       Count         largest Decision.Overshoot, of limits with Spread.Sync or Adaptive
//	RefundsGiven    Count         charges that were refunded: of requests that another limit refused,
//	                              and by Receipt.Refund
//	RefundsDropped  Count         charges that were not refunded, because it was not safe or the store
//	                              failed
//	Clamped         Count         states further in the future than clock skew explains, which were
//	                              clamped
//	RulesRefused    Count         rules documents that were not put into force, by each environment
//	                              that read one or could not start with it
//	RulesVersion    None          version of the rules in force; the minimum is below the maximum
//	                              until every environment has the newest
//	RulesAge        Seconds       since the source last confirmed the rules in force; an hour or more
//	                              if it never did; missing if the rules have no source
//	ClockSkew       Milliseconds  least distance between the environment's clock and the store's;
//	                              missing while it is unknown, and for a store in this process
//	EventsDropped   Count         lost decision events (package decisionlog)
//
// A line always has Allowed and Refused, so that ratios have a denominator. It has the other counts
// only if they are not zero, so alarms must treat missing data as good. A line has at most 50 values of
// a latency, which are chosen at random. Failures before a decision count in no metric, unless the
// rules caused them.
//
// # By rule
//
// These metrics have the dimension Rule, which is Limit.Rule: "GET /api/v1/search". They are written
// if Recorder.Rules has named the rules.
//
//	RuleAllowed   Count  allowed requests that the rule charged, also in shadow mode
//	RuleRefused   Count  requests that the rule refused; of several rules that refuse, the one that
//	                     the answer shows
//	RuleShadowed  Count  requests that the rule would have refused outside shadow mode
//
// So RuleRefused / (RuleAllowed + RuleRefused) is the refusal rate of a rule, and RuleShadowed /
// RuleAllowed the rate that it would have. The first ten rules of a document are counted apart and all
// others as "(others)", so put the rules to watch first. A name that is not ASCII or is longer than 100
// bytes is cut and ends in a hash. A line has room for one rule, and rules take turns. So the counts of
// a rule may be written later, by up to a second per rule.
//
// There is no dimension for the store, because a deployment has one store, and none for the outcome,
// because the names of the metrics contain it.
//
// # Most refused callers
//
// At most once a second there is a line for each of the ten callers that one limit refused most, and a
// line without a subject for all others:
//
//	{"weir":"refused","subject":"3391c2a9a8625702","limit":"search","refused":17}
//	{"weir":"refused","refused":230}
//
// A Contributor Insights rule has the key $.subject and the sum of $.refused, where $.weir is "refused"
// and $.subject is present. The subject is a keyed [SubjectHash], so no line names a caller. A line
// without a limit counts refusals without a limit to show.
//
// # Other log lines
//
// Lines of other loggers, such as one per bad credential, would grow with what clients send.
// [NewRateLimitedHandler] writes one line of each message a second.
//
// # When it writes
//
// Nothing runs in the background, because Lambda freezes it. The first decision after a quiet second
// is written at once. Later decisions are written with the first one after the second. Counts that wait
// for longer than a minute are written apart, under their own time. Lines of refused callers have the
// time at which they are written.
//
// The counts that wait when an environment ends are lost: up to a second of decisions, but never the
// first, and up to eleven seconds of rules. Beyond 1,000 pairs of caller and limit between two writes,
// further pairs are counted together. CloudWatch may count a line twice.
//
// # What it costs
//
// A line of one decision has 640 bytes, and 12 more for each further pair of latencies. The log of an
// environment grows as follows, by these lines alone:
//
//	one request a second           640 B/s                     1.7 GB a month
//	a hundred or more a second     640 + 49 × 12 = 1.25 kB/s   3.3 GB a month
//	at most, for any traffic       3.5 kB/s                    9.1 GB a month
//
// There is at most one line per request, and one of 240 bytes for each further rule that charges it. So
// a million requests that one rule charges are at most 0.64 GB, over any number of environments. A
// refused request adds at most 120 B.
//
// CloudWatch charges $0.30 a month for each metric that had a value: for the totals at most 21 in a
// deployment ($6.30), and 2 or 3 for each of at most eleven names of rules ($6.60 to $9.90). The number
// of callers, environments and rules does not matter. Five rules and all totals are $9.30.
//
// Lambda treats these lines as level INFO, so a function with a higher log level sends no metrics.
package telemetry
