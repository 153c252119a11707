package storetest

import (
	"os"
	"strings"
	"testing"
)

// Server returns the address in the environment variable of a server that a test
// needs. Without one the test is skipped, unless WEIR_REQUIRE lists the server by
// name (or says "all"): then it fails. `make test` starts the servers and sets the
// variables.
func Server(tb testing.TB, name, variable string) string {
	tb.Helper()
	if address := os.Getenv(variable); address != "" {
		return address
	}
	for item := range strings.SplitSeq(os.Getenv("WEIR_REQUIRE"), ",") {
		switch strings.TrimSpace(item) {
		case "all", name:
			tb.Fatalf("%s is required by WEIR_REQUIRE, but %s is not set", name, variable)
		case "", "dynamodb", "redis":
		default:
			tb.Fatalf("WEIR_REQUIRE: got %q, want all, or some of dynamodb,redis", item)
		}
	}
	tb.Skipf("SKIPPED: %s tests need %s; `make test` starts a server and sets it", name, variable)
	return ""
}
