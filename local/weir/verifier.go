package main

import (
	"io"
	"regexp"

	"github.com/weir-limits/weir/local/verify"
	"github.com/weir-limits/weir/local/verify/account"
)

type verifier struct {
	verify.Deployment
	template, rules           string
	stackName, region, report string
	stack                     *account.Stack // nil without --stack
	yes, asJSON, write, all   bool
	out, log                  io.Writer
}

// production matches the names of stages that look like production.
var production = regexp.MustCompile(`(?i)(^|[^a-z])(prod|production|prd|live)([^a-z]|$)`)
