// Package telemetry writes metrics and refusals to the log. CloudWatch extracts the metrics.
//
// A [Recorder] gets the outcome of every request and writes at most one line of metrics a second, in
// CloudWatch's embedded metric format. Each deployment has a namespace: "Weir/" and its name, see
// [Namespace]. A nil Recorder records nothing.
//
// # Totals
//
// Totals have no dimensions. Each request counts as one of Allowed, Refused, Unauthorized and Failed. In the table, "of Refused" means
// that Refused includes the count.
//
//	Allowed         Count         allowed, even if no limit applied, or if the request ended later
//	                              in the queue of a leaky bucket
//	Refused         Count         over a limit: 429
//	Unauthorized    Count         bad or missing credential: 401
//	Failed          Count         no decision, an unverified credential, or a limit with on_error
//	                              deny while the store fails: 500, 503
//	Degraded        Count         of all four: the decision lacks at least one answer of the store;
//	                              does not include busy subjects and counts of an earlier outage
//	LocalFull       Count         of Failed: in an outage the environment had no room to count one
//	                              more caller
//	Evicted         Count         callers below half of all their limits whose counts a full memory store,
//	                              or a full environment in an outage, forgot
//	Busy            Count         of Refused: the subject got too many concurrent charges
//	FromCache       Count         of Refused: the denial cache refused without a store call
//	Shadowed        Count         of Allowed and Refused: a limit in shadow mode would have refused
//	Latency         Milliseconds  of Allowed and Refused: duration of the decision, including the
//	                              identification of the caller
//	StoreCalls      Count         Decision.StoreCalls, without settlements; a call can be several
//	                              DynamoDB requests
//	StoreLatency    Milliseconds  Decision.StoreTime of requests with store calls
//	Overshoot       Count         largest Decision.Overshoot, of limits with Spread.Sync
//	RefundsGiven    Count         refunded charges: those of requests that another limit refused, and
//	                              those of Receipt.Refund and Receipt.Settle
//	RefundsDropped  Count         charges that were not refunded, because it was not safe or the store
//	                              failed
//	RegionCalls     Count         calls of the stores of other regions, for limits that regions share
//	TransfersLost   Count         Decision.Transfer.Lost: what these messages moved is lost until the
//	                              window ends
//	RegionsFailed   Count         Decision.Transfer.Failed: regions without an answer in time
//	SettlementsLost Count         charges that kept their reserve, because the store failed
//	ReportsRejected Count         cost reports that were ignored
//	CostsUnread     Count         limits whose cost was not found in the answer, so that the reserve stays
//	DebtExcess      Count         cost above the reserve that exceeded the max debt; it is not counted
//	Clamped         Count         states that were clamped, because they were further in the future
//	                              than clock skew explains
//	RulesRefused    Count         rejected rules documents, counted by each environment that read
//	                              one or could not start with it
//	RulesVersion    None          version of the rules in force; the minimum is below the maximum
//	                              until every environment has the newest version
//	RulesAge        Seconds       time since the source last confirmed the rules in force; an hour
//	                              or more if it never did; missing if the rules have no source
//	ClockSkew       Milliseconds  lower bound of the difference between the clocks of the environment
//	                              and the store; missing while unknown and for a store in memory
//	RecordsIgnored  Count         requests for which limits in the record of the API key were ignored,
//	                              because of a mistake or because the rules do not fit
//	ForeignKeys     Count         requests with an API key that is not Weir's (caller.Caller.ForeignKey)
//	ClaimsUncounted Count         requests that a limit by a claim does not charge, or not for all its values
//	Notices         Count         notices of limits with Notify
//	AddressesNotFound Count       of all four: requests without the secret of the distribution or the proxy,
//	                              or without the client's address (caller.Caller.IPNotFound)
//	Unmatched       Count         of all four: requests that no rule matched, except exempt
//	                              requests and malformed paths
//
// A line always has Allowed and Refused, so that ratios have a denominator. Other counts are missing
// if they are zero, so alarms must treat missing data as good. A line has at most 50 values of a
// latency, which are chosen at random. A request that fails before the decision counts in no metric,
// unless the rules caused the failure.
//
// # By rule
//
// These metrics have the dimension Rule. Its value is Limit.Rule, for example "GET /api/v1/search".
// They are written after a call of Recorder.Rules has named the rules.
//
//	RuleAllowed   Count  allowed requests that the rule charged, including rules in shadow mode
//	RuleRefused   Count  requests that the rule refused; if several rules refuse a request, only the
//	                     rule that the answer shows counts
//	RuleShadowed  Count  requests that the rule would have refused outside shadow mode
//	RuleMarked    Count  of RuleAllowed: requests over a limit of the rule with mode mark
//
// So the refusal rate of a rule is RuleRefused / (RuleAllowed + RuleRefused). The rate that a rule in
// shadow mode would have is RuleShadowed / RuleAllowed. The first ten rules of a document are counted
// separately and all others as "(others)", so put the important rules first. A name that is not ASCII
// or is longer than 100 bytes is cut and ends in a hash. A line has room for one rule, so the rules
// take turns. The counts of a rule can be delayed by up to a second for each rule.
//
// # By exemption
//
// This metric has the dimension Exemption. Its value is the name of an exemption of the document. As
// for rules, the first ten are counted separately, and all others as "(others)".
//
//	Exempt  Count  of Allowed: requests that no rule counted, because the exemption applies
//
// The metrics have no dimension for the store, because a deployment has one store. They have no
// dimension for the outcome, because their names contain it.
//
// # By function
//
// Lambda counts the 401 of an authorizer as an error of the function. The authorizer therefore writes Unauthorized a
// second time, with the dimension FunctionName, so that an alarm on errors can subtract these.
//
// # Decisions
//
// A [DecisionLine] answers why a caller was refused, and `weir why` reads it:
//
//	{"weir":"refused","time":"2026-11-21T12:00:00.123Z","subject":"3391c2a9a8625702",
//	 "rule":"GET /api/v1/search","limit":"search","capacity":20,"retryAfterSeconds":0.6,"count":17}
//	{"weir":"refused","time":"2026-11-21T12:00:00.123Z","count":230}
//
// A caller has at most one line a second, and an environment at most twenty: those of the 18 callers with the
// most refusals, and a line without a subject for all others. If several limits refuse a caller, they take
// turns. Each refusal counts in one line. "weir" is "shadowed" if a limit in shadow mode would have refused.
//
// The subject is a keyed [SubjectHash], and the rule is a pattern of the document, so no line contains the
// name of a caller or the path of a request. Behind a distribution or a proxy, "addressFrom" is the source of the address
// of the last request, with the reason if the host is the source. A line without a limit counts refusals that show no limit.
//
// With [Recorder.Sample], one in so many other requests has a line too, which counts for all of them: allowed,
// unauthorized and failed ones. So the sum of $.count is the number of requests, an estimate for sampled ones: with n
// lines, its error is below about 200/√n percent in 19 of 20 cases. A sampled line adds about 200 bytes to the log.
//
//	{"weir":"allowed","time":"2026-11-21T12:00:00.123Z","subject":"3391c2a9a8625702",
//	 "rule":"GET /api/v1/search","limit":"search","capacity":20,"remaining":7,"count":100}
//
// # Notices
//
// Each limiter.Notice is a line, which is written at once. The same notice can be written twice, with the
// same id.
//
//	{"weir":"notice","time":"2026-11-21T12:00:00Z","namespace":"prod","subject":"3391c2a9a8625702",
//	 "rule":"GET /search","limit":"month","id":"3391c2a9a8625702-1I6B9T2C-1793491200-80",
//	 "percent":80,"used":1600000,"capacity":2000000,
//	 "start":"2026-11-01T00:00:00Z","end":"2026-12-01T00:00:00Z"}
//
// The subject is that of the limit, which is the hash of the caller if the limit counts by caller.
//
// # Other log lines
//
// Clients can cause the lines of other loggers, for example one for each bad credential.
// [NewRateLimitedHandler] bounds them to one line a second for each message.
//
// # When it writes
//
// Nothing runs in the background, because Lambda freezes the process. The first decision after a
// quiet second is written at once. The decisions of the next second are written together with the
// first decision after it. Counts that wait longer than a minute are written separately, with their
// own time. A process that is never frozen calls [Recorder.Flush] to write without a further decision, and
// [Recorder.FlushAll] before somebody reads its log.
//
// When an environment ends, the waiting counts are lost: up to one second of decisions, but never the
// first decision, up to eleven seconds of counts by rule, and the refusals that wait for a turn. A Recorder
// counts at most 1,000 pairs of caller and limit separately between two writes, and all further pairs
// together. CloudWatch can count a line twice.
//
// # What it costs
//
// A line of one decision has 640 bytes, and 12 more for each further pair of latencies. These lines
// let the log of an environment grow as follows:
//
//	one request a second           640 B/s                     1.7 GB a month
//	a hundred or more a second     640 + 49 × 12 = 1.25 kB/s   3.3 GB a month
//	at most, for any traffic       9 kB/s                      24 GB a month
//
// A request adds at most one line, and a line of 240 bytes for each further rule that charges it. So
// a million requests that one rule charges add at most 0.64 GB, with any number of environments. A
// refused request adds at most 240 B more, if its rule and limit have names of usual length.
//
// CloudWatch charges $0.30 a month for each metric that had a value. A deployment has at most 21
// totals ($6.30), and 2 or 3 metrics for each of at most eleven names of rules ($6.60 to $9.90). The
// number of callers, environments and rules does not matter. Unauthorized of an authorizer adds $0.30. Five rules and all totals are $9.30.
//
// Lambda treats these lines as level INFO, so a function with a higher log level sends no metrics.
package telemetry
