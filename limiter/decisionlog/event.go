package decisionlog

import (
	_ "embed"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// Schema is the JSON Schema (draft 2020-12) of an event.
//
//go:embed schema.json
var Schema []byte

// Event describes one request or several similar requests; see the package documentation.
type Event struct {
	Time        time.Time `json:"time"` // when the first of the requests arrived
	Namespace   string    `json:"namespace"`
	Environment string    `json:"environment"` // random text that identifies the process
	// Sequence numbers the events of an environment from 1. A repeated event has the same number,
	// and a lost event leaves a gap.
	Sequence int64           `json:"sequence"`
	Outcome  telemetry.Class `json:"outcome"`
	// Count is the number of requests that the event represents. It is an estimate for sampled
	// requests, and exact for others.
	Count   int64  `json:"count"`
	Subject string `json:"subject,omitempty"` // the caller's hash; "" if several callers are counted together
	// AddressFrom is the source of the address of the last request (caller.Caller.IPFrom); "" if only the host can be, or
	// if several callers are counted together.
	AddressFrom string `json:"addressFrom,omitempty"`
	Rule        string `json:"rule,omitempty"`  // the rule of the limit that decided, such as "GET /api/v1/search"
	Limit       string `json:"limit,omitempty"` // the name of the limit that decided
	// Cost is the sum of the costs of the requests on the limit that decided.
	Cost int64 `json:"cost"`
	// Remaining is the remaining quota of the limit that decided, after the last request.
	Remaining int64          `json:"remaining"`
	LatencyMS float64        `json:"latencyMs"`          // average duration of the decisions, in milliseconds
	Degraded  limiter.Reason `json:"degraded,omitempty"` // the reason why the store did not decide
	// Excess is the cost that exceeded the max debt of the limit when Count requests were settled. An
	// event with an Excess reports only settlements; another event reports the decisions.
	Excess   int64  `json:"excess,omitempty"`
	Shadowed string `json:"shadowed,omitempty"` // a limit in shadow mode that would have refused
	// Notice reports that a subject has used a percentage of the limit. An event with a Notice reports no
	// request, and its Subject is the subject of the limit.
	Notice *telemetry.Notice `json:"notice,omitempty"`
}
