// Command deploy publishes the rules document of a stack when a deployment or its rollback changes it. With the variable
// JWKS, it copies the issuer's signing keys into the records table instead.
package main

import (
	"github.com/weir-limits/weir/functions/boot"
)

func main() { boot.StartDeploy() }
