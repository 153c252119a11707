package contract

// CheckProgram is the import path of the program that checks a deployment before it starts. It reads
// a [Deployment] from standard input and writes a [Checked] to standard output, both in JSON.
const CheckProgram = "github.com/weir-limits/weir/functions/boot/check"

// VariableSimilarTiers is the variable with which a person accepts [Checked.SimilarTiers]: the value true. Functions
// do not read it.
const VariableSimilarTiers = "SIMILAR_TIERS"

// Deployment contains the configuration of a deployed function.
type Deployment struct {
	// Variables are the function's environment variables. If a value is known only after the deployment,
	// put a placeholder in its place.
	Variables map[string]string `json:"variables"`
	// Rules is the rules document of the bundle.
	Rules []byte `json:"rules"`
}

// Checked is the result of a check. The fields after Rules are meaningful only if Environment and Rules
// are empty.
type Checked struct {
	// Environment lists the mistakes in the variables, one on each line. It is "" if there are none.
	Environment string `json:"environment,omitempty"`
	// Rules lists the mistakes in the rules document, one on each line. It is "" if there are none.
	Rules string `json:"rules,omitempty"`
	// SimilarTiers lists the tiers whose names are probably misspelled, one on each line. It is "" if there are none.
	SimilarTiers string `json:"similarTiers,omitempty"`
	// Version is the version in the document or, without one, the value of [VariableRulesVersion]. 0
	// means that neither exists.
	Version int64 `json:"version,omitempty"`
	// LocalProcesses is the smallest local_processes above 1 in the rules. It is 0 if there is none.
	LocalProcesses int `json:"localProcesses,omitempty"`
	// Settles is true if a limit counts what is known only after the answer. Behind a REST API, the
	// function [Forward] then settles receipts.
	Settles bool `json:"settles,omitempty"`
	// SettlesFromLog is true if such a limit counts what the access log of a REST API contains. This is
	// everything except the cost that an API reports.
	SettlesFromLog bool `json:"settlesFromLog,omitempty"`
	// MatchesAll is true if a rule matches every request, so that [MetricUnmatched] is always 0.
	MatchesAll bool `json:"matchesAll,omitempty"`
}
