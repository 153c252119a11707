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

// Event is one request, or several that are alike. The package's doc says which.
type Event struct {
	Time        time.Time `json:"time"` // when the first of them came
	Namespace   string    `json:"namespace"`
	Environment string    `json:"environment"` // random for each process
	// Sequence counts the events of an environment from 1 on: what comes twice has it twice,
	// and what was lost leaves a gap.
	Sequence int64         `json:"sequence"`
	Outcome  outcome.Class `json:"outcome"`
	// Count is how many requests the event stands for. The sum over events is their number:
	// exact, but for plain allowed ones, of which it is estimated.
	Count   int64  `json:"count"`
	Subject string `json:"subject,omitempty"` // the caller's hash; "" if others are counted together
	Rule    string `json:"rule,omitempty"`    // of the limit that speaks, such as "GET /api/v1/search"
	Limit   string `json:"limit,omitempty"`   // its name
	// Cost is what the requests cost together by that limit.
	Cost int64 `json:"cost"`
	// Remaining is what that limit had left after the last of them.
	Remaining int64          `json:"remaining"`
	LatencyMS float64        `json:"latency_ms"`         // of a decision, on average
	Degraded  limiter.Reason `json:"degraded,omitempty"` // why a store was not asked
	Shadowed  string         `json:"shadowed,omitempty"` // a limit on trial that would have refused
}
