package decisionlog

import (
	_ "embed"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/outcome"
)

// Schema is the JSON Schema (draft 2020-12) of an event.
//
//go:embed schema.json
var Schema []byte

// Event is one request, or several that are alike; see the package documentation.
type Event struct {
	Time        time.Time `json:"time"` // when the first of the requests came
	Namespace   string    `json:"namespace"`
	Environment string    `json:"environment"` // random for each process
	// Sequence numbers the events of an environment from 1. A repeated event has the same number,
	// and a lost one leaves a gap.
	Sequence int64         `json:"sequence"`
	Outcome  outcome.Class `json:"outcome"`
	// Count is the number of requests that the event stands for: exact, but an estimate for sampled
	// requests.
	Count   int64  `json:"count"`
	Subject string `json:"subject,omitempty"` // the caller's hash; "" if several callers are counted together
	Rule    string `json:"rule,omitempty"`    // of the limit that decided, such as "GET /api/v1/search"
	Limit   string `json:"limit,omitempty"`   // its name
	// Cost is the cost of the requests together, by that limit.
	Cost int64 `json:"cost"`
	// Remaining is what that limit had left after the last request.
	Remaining int64          `json:"remaining"`
	LatencyMS float64        `json:"latencyMs"`          // of a decision, on average
	Degraded  limiter.Reason `json:"degraded,omitempty"` // why the store did not decide
	Shadowed  string         `json:"shadowed,omitempty"` // a limit in shadow mode that would have refused
}
