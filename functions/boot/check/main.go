// Command check reports the mistakes in the variables and the rules of a deployment. It reads a
// [contract.Deployment] from standard input and writes a [contract.Checked] to standard output, both
// in JSON. The CDK construct runs it with `go run`, so a CDK app does not link the limiter.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/contract"
)

func main() {
	var d contract.Deployment
	err := json.NewDecoder(os.Stdin).Decode(&d)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(boot.Check(d))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
}
