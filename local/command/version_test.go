package command

import (
	"os/exec"
	"strings"
	"testing"
)

// A version in Unix seconds or milliseconds has its date in UTC, in every time zone of the machine.
func TestRulesVersion(t *testing.T) {
	for version, want := range map[int64]string{
		0: "version 0", 7: "version 7", 999_999_999: "version 999999999",
		1_000_000_000: "version 1000000000 (2001-09-09T01:46:40Z)", 1_772_625_602: "version 1772625602 (2026-03-04T12:00:02Z)",
		1_772_625_602_999: "version 1772625602999 (2026-03-04T12:00:02Z)",
	} {
		if got := RulesVersion(version); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A release has the version that the linker sets, with or without a tag.
func TestBuilt_version(t *testing.T) {
	const set = "-X github.com/weir-limits/weir/local/command.version=v1.2.3"
	for ldflags, want := range map[string]func(string) bool{
		set:     func(got string) bool { return got == "v1.2.3" },
		"-s -w": func(got string) bool { return got != "" && got != "v1.2.3" },
	} {
		out, err := exec.CommandContext(t.Context(), "go", "run", "-ldflags", ldflags, "./testdata/version").CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || !want(got) {
			t.Errorf("-ldflags %q: got %q, %v, want v1.2.3 only if the linker sets it", ldflags, got, err)
		}
	}
}
