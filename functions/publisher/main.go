// Command publisher publishes the rules document of a stack when a deployment or its rollback changes it.
package main

import (
	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/sinks/keyvalues"
)

func main() { boot.StartPublisher(boot.Clients{List: keyvalues.Open}) }
