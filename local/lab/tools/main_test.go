package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/command/commandtest"
)

// TestMain lets the tests start this program as a separate process.
func TestMain(m *testing.M) {
	if !commandtest.Main(main) {
		m.Run()
	}
}

// tool runs a command line and returns its exit status and output.
func tool(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = command.Execute(t.Context(), rootCommand(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"frobnicate"}, {"with", "redis", "true"}, {"with", "mysql", "--", "true"}, {"sam", "x"}, {"events"},
		{"events", "--stream", "s", "--brokers", "b:1"}} {
		if code, _, errs := tool(t, args...); code != 2 || strings.Count(errs, "\n") != 2 || !strings.Contains(errs, "--help") {
			t.Errorf("%v: got exit %d, stderr %q, want exit 2 and two lines with --help", args, code, errs)
		}
	}
}

func TestWith(t *testing.T) {
	t.Setenv("REDIS_URL", "redis://set-already")
	if code, out, errs := tool(t, "with", "redis", "--", "sh", "-c", "echo $REDIS_URL; exit 7"); code != 7 || out != "redis://set-already\n" {
		t.Errorf("got exit %d, output %q, stderr %q, want exit 7 and the given URL", code, out, errs)
	}
	t.Setenv("REDIS_URL", "")
	t.Setenv("PATH", "/nowhere")
	t.Setenv("WEIR_REQUIRE", "")
	if code, _, errs := tool(t, "with", "redis", "--", "/bin/sh", "-c", "exit 0"); code != 0 ||
		strings.Count(errs, "SKIPPED: redis: redis-server not found on the PATH") != 2 {
		t.Errorf("no server: got exit %d, stderr %q, want exit 0 and two notes about the skipped server", code, errs)
	}
	t.Setenv("KAFKA_BROKERS", "")
	if code, _, errs := tool(t, "with", "redis,kafka", "--", "/bin/sh", "-c", "exit 0"); code != 0 ||
		!strings.HasPrefix(errs, "SKIPPED: redis: ") || !strings.Contains(errs, "\nSKIPPED: kafka: ") {
		t.Errorf("no servers: got exit %d, stderr %q, want exit 0 and a note about each, in their order", code, errs)
	}
	t.Setenv("WEIR_REQUIRE", " redis ,")
	t.Setenv("REDIS_URL", "redis://set-already")
	if code, out, errs := tool(t, "with", "redis", "--", "/bin/sh", "-c", "echo $WEIR_REQUIRE"); code != 0 || out != "redis\n" {
		t.Errorf("WEIR_REQUIRE in the environment of the command: got exit %d, output %q, stderr %q; want exit 0, output \"redis\\n\"", code, out,
			errs)
	}
	t.Setenv("REDIS_URL", "")
	for _, require := range []string{"1", "foo", "redis,mysql", "redis dynamodb"} {
		t.Setenv("WEIR_REQUIRE", require)
		if code, _, errs := tool(t, "with", "redis", "--", "/bin/sh", "-c", "exit 0"); code != 2 ||
			!strings.Contains(errs, "WEIR_REQUIRE: got ") {
			t.Errorf("WEIR_REQUIRE=%s: got exit %d, stderr %q, want exit 2 and a message about WEIR_REQUIRE", require, code, errs)
		}
	}
	for _, require := range []string{"redis", "all", "dynamodb,redis", "dynamodb, redis"} {
		t.Setenv("WEIR_REQUIRE", require)
		if code, _, errs := tool(t, "with", "redis", "--", "/bin/sh", "-c", "exit 0"); code != 1 || !strings.Contains(errs, "redis is required") {
			t.Errorf("no server, WEIR_REQUIRE=%s: got exit %d, stderr %q, want exit 1 and the required server", require, code, errs)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// After an interrupt, `weir-tools with` exits with the status of the command that it runs.
func TestWith_interrupt(t *testing.T) {
	t.Setenv("REDIS_URL", "redis://set-already")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started := writerFunc(func(b []byte) (int, error) { cancel(); return len(b), nil })
	var errs bytes.Buffer
	script := `trap 'kill $!; exit 0' INT; sleep 60 >/dev/null 2>&1 & echo; wait`
	if code := command.Execute(ctx, rootCommand(), []string{"with", "redis", "--", "sh", "-c", script}, started, &errs); code != 0 ||
		errs.Len() > 0 {
		t.Errorf("got exit %d, stderr %q, want exit 0 and no errors", code, &errs)
	}
}

// Without Python, the SAM tools are skipped, or are an error if WEIR_REQUIRE lists them.
func TestWith_tools(t *testing.T) {
	checkouttest.Scratch(t)
	t.Setenv("WEIR_TOOLS", "")
	t.Setenv("PATH", "/nowhere")
	for require, want := range map[string]int{"": 0, "tools": 1} {
		t.Setenv("WEIR_REQUIRE", require)
		if code, _, errs := tool(t, "with", "--install", "tools", "--", "/bin/sh", "-c", `test -z "$WEIR_TOOLS"`); code != want ||
			!strings.Contains(errs, "tools") || !strings.Contains(errs, "python3 (3.10 or newer, with venv) not found on the PATH") {
			t.Errorf("WEIR_REQUIRE=%s: got exit %d, stderr %q, want exit %d and the missing Python", require, code, errs, want)
		}
	}
}
