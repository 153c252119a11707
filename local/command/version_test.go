package command

import (
	"os/exec"
	"strings"
	"testing"
)

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
