// Command serve runs the API with its limits on this machine. See `make run`.
package main

import (
	"github.com/weir-limits/weir/local/console"
	"github.com/weir-limits/weir/local/serve"

	"example.com/limits/functions/api"
)

func main() {
	serve.Main(serve.Options{API: api.New, Console: console.New, Rules: "functions/rules.json"})
}
