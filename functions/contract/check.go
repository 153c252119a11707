package contract

// CheckProgram is the import path of the program that checks a deployment before it
// starts. It reads a [Deployment] from standard input and writes a [Checked] to standard
// output, both in JSON.
const CheckProgram = "github.com/weir-limits/weir/functions/boot/check"

// Deployment is what a function is deployed with.
type Deployment struct {
	// Variables are the function's environment variables. A value that is known only after
	// the deployment needs a placeholder.
	Variables map[string]string `json:"variables"`
	// Rules is the rules document of the bundle.
	Rules []byte `json:"rules"`
}

// Checked is the result of a check. The other fields are meaningful only if a field of
// mistakes is empty.
type Checked struct {
	// Environment lists the mistakes in the variables, one a line; "" if there are none.
	Environment string `json:"environment,omitempty"`
	// Rules lists the mistakes in the rules document, one a line; "" if there are none.
	Rules string `json:"rules,omitempty"`
	// Version is the version of the rules: the document's or, without one, that of
	// [VariableRulesVersion]. 0 means that neither has one.
	Version int64 `json:"version,omitempty"`
	// LocalProcesses is the smallest local_processes above 1 in the rules, 0 if there is none.
	LocalProcesses int `json:"localProcesses,omitempty"`
}
