package verify

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
	// Reason is why the row was skipped.
	Reason string `json:"reason,omitempty"`
	// Raw is the answer that shows the failure, shortened.
	Raw string `json:"raw,omitempty"`
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
	return Observation{Outcome: Pass, Expected: expected, Observed: observed}
}

func failed(expected, observed, raw string) Observation {
	return Observation{Outcome: Fail, Expected: expected, Observed: observed, Raw: raw}
}

func skipped(reason string) Observation { return Observation{Outcome: Skip, Reason: reason} }
