// Package golden has the templates that infra synthesizes by default. Its tests compare them.
package golden

import _ "embed"

// Served is the template that weir serve runs: it has an access log, and a function that gets the log's lines.
//
//go:embed settlement.template.json
var Served []byte
