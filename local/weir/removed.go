package main

// removed are commands and flags of earlier versions, with what to do instead.
var removed = map[string]string{
	"e2e":                              "run weir verify, and CloudFormation's drift detection",
	"hash":                             "weir usage prints the hash of a caller",
	"load":                             "send requests with vegeta: see infra/OPERATIONS.md",
	"seed":                             "weir serve creates the keys",
	"simulate":                         "its figures are in local/lab/simulate",
	"rules diff":                       "weir rules publish prints the changes",
	"rules rollback":                   "weir rules get --version VERSION | weir rules publish -",
	"rules publish --rules-from-table": "set RULES_FROM=table, as the functions have it",
	"explain --rules-from-table":       "set RULES_FROM=table, as the functions have it",
	"usage --rules-from-table":         "set RULES_FROM=table, as the functions have it",
	"reset --rules-from-table":         "set RULES_FROM=table, as the functions have it",
	"reset --yes":                      "the command asks nothing",
	"rules publish --after":            "of two publications at the same time, one fails",
	"keys import --guessable":          "give the caller a new key",
	"keys create --unknown-tier":       "list all tiers in the rules document",
	"keys set --unknown-tier":          "list all tiers in the rules document",
	"keys origin":                      "the parameter OriginSecret of the stack has the secret",
	"keys rotate":                      "a reader of the table computes no key: see functions/apikeys/README.md",
	"keys rotate-origin":               "set the parameters OriginSecret and PreviousOriginSecret of the stack",
	"keys rotate-receipts":             "back ends report costs to the function log: see functions/SETTLE.md",
	"serve --environments":             "functions run in the process of weir serve",
	"serve --template":                 "SAM runs a template of your own: see local/SAM.md",
	"verify --stack":                   "run CloudFormation's drift detection: see infra/VERIFY.md",
	"why --stack":                      "the stack has saved queries: see infra/OPERATIONS.md",
}
