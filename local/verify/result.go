package verify

import (
	"strings"
	"unicode"
)

// Outcome is the outcome of a row.
type Outcome string

// The outcomes.
const (
	Pass Outcome = "pass"
	Fail Outcome = "fail"
	Skip Outcome = "skip"
)

// Observation is what a test of a row found.
type Observation struct {
	Outcome Outcome `json:"outcome"`
	// Expected and Observed are short descriptions. A skipped row has none.
	Expected string `json:"expected,omitempty"`
	Observed string `json:"observed,omitempty"`
	// Warning is what a person should know of a row that passed, such as errors before the run.
	Warning string `json:"warning,omitempty"`
	// Reason is why the row was skipped.
	Reason string `json:"reason,omitempty"`
	// Raw is the answer that shows the failure, shortened.
	Raw string `json:"raw,omitempty"`
}

// Noted returns what was observed, with the warning.
func (o Observation) Noted() string {
	if o.Warning == "" {
		return o.Observed
	}
	return o.Observed + "; warning: " + o.Warning
}

// Result is the observation of a row.
type Result struct {
	Row   string `json:"row"`
	Claim string `json:"claim"`
	Observation
	// Hand is the way in which a person tests the claim.
	Hand string `json:"hand"`
	// Requests is the number of requests that the row sent. A row also uses the answers of earlier rows.
	Requests int `json:"requests"`
}

func passed(expected, observed string) Observation {
	return Observation{Outcome: Pass, Expected: expected, Observed: printable(observed)}
}

func failed(expected, observed, raw string) Observation {
	return Observation{Outcome: Fail, Expected: expected, Observed: printable(observed), Raw: printable(raw)}
}

func skipped(reason string) Observation { return Observation{Outcome: Skip, Reason: printable(reason)} }

// printable returns the observation of an account without control characters.
func (o Observation) printable() Observation {
	o.Observed, o.Warning, o.Reason, o.Raw = printable(o.Observed), printable(o.Warning), printable(o.Reason), printable(o.Raw)
	return o
}

// printable replaces the characters with which an answer could control a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' || r == '\t' {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}
