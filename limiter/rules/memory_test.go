package rules_test

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/rules"
)

// most is the largest memory of a process that parses any document. GOGC=25 keeps the share of garbage small. With one
// processor, a busy machine delays the program and its collector alike, so the figure does not depend on the load.
const most = 64 << 20

// parseEnv makes the test binary call parseInput instead of the tests.
const parseEnv = "WEIR_TEST_PARSE"

// parseInput parses the document of the standard input and prints the peak memory of this process in bytes.
func parseInput() {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	_, _ = rules.Parse(text, rules.Options{Items: dynamostore.Items{}, Version: 1})
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Println(m.Sys) // it never falls, so it is the peak
}

// peak returns the peak memory of a process that parses the document, in bytes.
func peak(t *testing.T, document string) int64 {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env, c.Stdin, c.Stderr = append(os.Environ(), parseEnv+"=1", "GOGC=25", "GOMAXPROCS=1"), strings.NewReader(document), os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// hostileText returns a random document of at most maximum size that repeats a small value in nested lists and objects,
// below long names.
func hostileText(r *rand.Rand) attack {
	names := []string{"a", strings.Repeat("n", 64), strings.Repeat(`\u0001`, 64), strings.Repeat(`\"`, 64), strings.Repeat("ü", 32),
		strings.Repeat("x", 5000)}
	values := []string{"0", `""`, "{}", "[]", "null", "1e9", `"\u0001"`, `{"a":0}`, `{"requests":1,"window":"1s"}`, "[0,0,0]"}
	outer := []string{"", "rules", "overrides", "exempt", "version"}[r.IntN(5)]
	key, value, depth, keyed := names[r.IntN(len(names))], values[r.IntN(len(values))], r.IntN(10), r.IntN(2) == 0
	open, end := "", ""
	if outer != "" {
		open, end = `{"`+outer+`":`, "}"
	}
	for range depth {
		open, end = open+`{"`+key+`":`, "}"+end
	}
	var b strings.Builder
	for i := 0; b.Len() < 1<<20-len(open)-len(end)-len(value)-len(key)-32; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		if keyed {
			fmt.Fprintf(&b, `"%x%s":`, i, key[:min(len(key), 6)])
		}
		b.WriteString(value)
	}
	list := "[" + b.String() + "]"
	if keyed {
		list = "{" + b.String() + "}"
	}
	name := fmt.Sprintf("%s: %d times %s, %d deep below %.12s, names: %t", outer, strings.Count(list, ",")+1, value, depth, key, keyed)
	return attack{name, open + list + end, anyAnswer}
}

// If WEIR_SOAK is set, the property tests check many more documents.
func TestMain(m *testing.M) {
	if os.Getenv(parseEnv) != "" {
		parseInput()
		return
	}
	if os.Getenv("WEIR_SOAK") != "" {
		if err := flag.Set("rapid.checks", "10000"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
