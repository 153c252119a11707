package contract

import "strings"

// MetricNamespace returns the CloudWatch namespace of a deployment's metrics. The argument is the
// value of [VariableNamespace].
func MetricNamespace(deployment string) string { return "Weir/" + deployment }

// VariableLogLevel is Lambda's variable with the ApplicationLogLevel of a function whose logs are JSON.
const VariableLogLevel = "AWS_LAMBDA_LOG_LEVEL"

// DropsMetrics reports whether Lambda drops metrics at an ApplicationLogLevel. Metrics are JSON lines without a level, and
// Lambda gives such a line the level INFO.
func DropsMetrics(level string) bool {
	switch strings.ToUpper(level) {
	case "WARN", "ERROR", "FATAL":
		return true
	}
	return false
}

// These are the names of the metrics that the functions write. Package limiter/telemetry defines each
// metric. Those that begin with Rule have the dimension [RuleDimension], MetricExempt has
// [ExemptionDimension], and the others have none. MetricUnauthorized also exists with [FunctionDimension].
const (
	MetricAllowed        = "Allowed"
	MetricRefused        = "Refused"
	MetricDegraded       = "Degraded"
	MetricFromCache      = "FromCache"
	MetricBusy           = "Busy"
	MetricLocalFull      = "LocalFull"
	MetricShadowed       = "Shadowed"
	MetricUnauthorized   = "Unauthorized"
	MetricFailed         = "Failed"
	MetricLatency        = "Latency"
	MetricStoreCalls     = "StoreCalls"
	MetricStoreLatency   = "StoreLatency"
	MetricOvershoot      = "Overshoot"
	MetricRefundsGiven   = "RefundsGiven"
	MetricRefundsDropped = "RefundsDropped"
	MetricRegionCalls    = "RegionCalls"
	MetricTransfersLost  = "TransfersLost"
	MetricRegionsFailed  = "RegionsFailed"

	MetricSettlementsLost = "SettlementsLost"
	MetricReportsRejected = "ReportsRejected"
	MetricDebtExcess      = "DebtExcess"

	MetricReceiptsSettled  = "ReceiptsSettled"
	MetricReceiptsOmitted  = "ReceiptsOmitted"
	MetricReceiptsForged   = "ReceiptsForged"
	MetricReceiptsReplayed = "ReceiptsReplayed"
	MetricReceiptsExpired  = "ReceiptsExpired"

	MetricRecordsIgnored    = "RecordsIgnored"
	MetricForeignKeys       = "ForeignKeys"
	MetricNotices           = "Notices"
	MetricLinesDropped      = "LinesDropped"
	MetricUnmatched         = "Unmatched"
	MetricDirectRequests    = "DirectRequests"
	MetricAddressesNotFound = "AddressesNotFound"

	MetricClamped       = "Clamped"
	MetricRulesRefused  = "RulesRefused"
	MetricRulesVersion  = "RulesVersion"
	MetricRulesAge      = "RulesAge"
	MetricEventsDropped = "EventsDropped"
	MetricClockSkew     = "ClockSkew"

	MetricRuleAllowed  = "RuleAllowed"
	MetricRuleRefused  = "RuleRefused"
	MetricRuleShadowed = "RuleShadowed"
	MetricRuleMarked   = "RuleMarked"

	MetricExempt = "Exempt"
)

// RuleDimension is the dimension of the metrics by rule. Its value is the rule's label, such as "GET
// /api/v1/search".
const RuleDimension = "Rule"

// ExemptionDimension is the dimension of [MetricExempt]. Its value is the name of an exemption in the
// rules document.
const ExemptionDimension = "Exemption"

// FunctionDimension is the dimension of the bad credentials that an authorizer returned as errors. Its value is the
// name of the function.
const FunctionDimension = "FunctionName"

// Metrics returns the names of the metrics without a dimension, in no particular order.
func Metrics() []string {
	return []string{
		MetricAllowed, MetricRefused, MetricDegraded, MetricFromCache, MetricBusy, MetricLocalFull,
		MetricShadowed, MetricUnauthorized, MetricFailed, MetricLatency, MetricStoreCalls,
		MetricStoreLatency, MetricOvershoot, MetricRefundsGiven, MetricRefundsDropped, MetricClamped, MetricRegionCalls, MetricTransfersLost, MetricRegionsFailed,
		MetricSettlementsLost, MetricReportsRejected, MetricDebtExcess,
		MetricReceiptsSettled, MetricReceiptsOmitted, MetricReceiptsForged, MetricReceiptsReplayed, MetricReceiptsExpired,
		MetricRulesRefused, MetricRulesVersion, MetricRulesAge, MetricEventsDropped, MetricClockSkew,
		MetricRecordsIgnored, MetricForeignKeys, MetricNotices, MetricLinesDropped, MetricUnmatched, MetricDirectRequests, MetricAddressesNotFound,
	}
}

// RuleMetrics returns the names of the metrics with [RuleDimension].
func RuleMetrics() []string {
	return []string{MetricRuleAllowed, MetricRuleRefused, MetricRuleShadowed, MetricRuleMarked}
}

// These are the members of the log line that reports a refused caller, which Contributor Insights reads. Package
// limiter/telemetry documents the line.
const (
	LineKind    = "weir"    // LineRefused, unless the line reports something else
	LineSubject = "subject" // the caller's keyed hash; absent if the line counts several callers
	LineLimit   = "limit"
	LineCount   = "refused" // number of refused requests

	LineRefused = "refused"
)

// LineNotice is the value of [LineKind] in the log line of a notice. Package limiter/telemetry documents the
// line.
const LineNotice = "notice"

// LineEdge is the value of [LineKind] in the log line of a caller whom a distribution should refuse.
const LineEdge = "edge"
