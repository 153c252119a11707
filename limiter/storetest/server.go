package storetest

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// needs lists the names, in WEIR_REQUIRE, of the programs and servers that tests may need.
var needs = []string{"browser", "clients", "docker", "dynamodb", "kafka", "njs", "node", "python3", "redis", "tools"}

// Server returns the address of a server that a test needs. It reads the address from an environment
// variable. If the variable is not set, Server skips the test. If WEIR_REQUIRE is "all" or lists the
// server, Server fails the test instead. `make test-all` starts the servers and sets the variables.
func Server(tb testing.TB, name, variable string) string {
	tb.Helper()
	if address := os.Getenv(variable); address != "" {
		return address
	}
	if required(tb, name) {
		tb.Fatalf("%s is required by WEIR_REQUIRE, but %s is not set", name, variable)
	}
	tb.Skipf("SKIPPED: %s tests need %s; `make test-all` starts a server and sets this variable", name, variable)
	return ""
}

// Program skips or fails a test like Server if a program is not installed.
func Program(tb testing.TB, name string) {
	tb.Helper()
	if _, err := exec.LookPath(name); err == nil {
		return
	}
	if required(tb, name) {
		tb.Fatalf("%s is required by WEIR_REQUIRE, but is not installed", name)
	}
	tb.Skipf("SKIPPED: the test needs %s, which is not installed", name)
}

// Unfetched skips or fails a test like Server. Use it if a program must download something before the
// test, such as a package of Node.js.
func Unfetched(tb testing.TB, name, command string, err error) {
	tb.Helper()
	if required(tb, name) {
		tb.Fatalf("%s is required by WEIR_REQUIRE, but is not downloaded; run %s (%v)", name, command, err)
	}
	tb.Skipf("SKIPPED: the test needs a download; run %s (%v)", command, err)
}

// required reports whether WEIR_REQUIRE lists name.
func required(tb testing.TB, name string) bool {
	tb.Helper()
	found := false
	for item := range strings.SplitSeq(os.Getenv("WEIR_REQUIRE"), ",") {
		item = strings.TrimSpace(item)
		if item != "" && item != "all" && !slices.Contains(needs, item) {
			tb.Fatalf("WEIR_REQUIRE: unknown name (got %q, want all, or names from the list %s)", item, strings.Join(needs, ","))
		}
		found = found || item == "all" || item == name
	}
	return found
}
