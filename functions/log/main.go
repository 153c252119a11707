// Command log acts on log lines: it sends decisions and notices to Kafka, and charges limits of
// requests behind a REST API after their answers.
package main

import (
	"github.com/weir-limits/weir/functions/log/kafka"
	"github.com/weir-limits/weir/functions/log/lines"
	_ "github.com/weir-limits/weir/functions/stores"
)

func main() {
	lines.Start(kafka.Open)
}
