package contract

import "strings"

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

// These are the members of the log line that reports a refused caller, which the saved queries read. Package
// limiter/telemetry documents the line.
const (
	LineKind    = "weir"    // telemetry.LineRefused, unless the line reports something else
	LineSubject = "subject" // the caller's keyed hash; absent if the line counts several callers
	LineLimit   = "limit"
	LineCount   = "count" // number of requests
)
