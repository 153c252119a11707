// Command extension is the program of the Lambda layer, which limits requests before a function runs.
package main

import (
	"os"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/runtimeproxy"
	_ "github.com/weir-limits/weir/functions/stores"
)

func main() { runtimeproxy.Start(boot.Layer(os.LookupEnv)) }
