package storetest

import (
	"os"
	"slices"
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
	required := strings.Split(os.Getenv("WEIR_REQUIRE"), ",")
	if slices.Contains(required, "all") || slices.Contains(required, name) {
		tb.Fatalf("%s is required by WEIR_REQUIRE, but %s is not set", name, variable)
	}
	tb.Skipf("SKIPPED: %s tests need %s; `make test` starts a server and sets it", name, variable)
	return ""
}
