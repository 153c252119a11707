// Command publisher publishes the rules document of a stack when a deployment or its rollback changes it.
package main

import "github.com/weir-limits/weir/functions/boot"

func main() { boot.StartPublisher() }
