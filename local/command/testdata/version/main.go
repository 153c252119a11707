// Program version prints its version.
package main

import (
	"fmt"

	"github.com/weir-limits/weir/local/command"
)

func main() { fmt.Println(command.Built().Version) }
