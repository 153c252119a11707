// Command publisher publishes the rules document of a stack at every deployment and rollback.
package main

import "github.com/weir-limits/weir/functions/boot"

func main() { boot.StartPublisher() }
