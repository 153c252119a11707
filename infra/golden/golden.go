// Package golden has the templates that infra synthesizes by default. Its tests compare them.
package golden

import _ "embed"

// Served is the template that weir serve runs.
//
//go:embed dynamodb.template.json
var Served []byte
