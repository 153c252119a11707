package main

import (
	"os/exec"
	"strings"
	"testing"
)

// A user's CDK app links everything that these packages import. They import packages of the functions for their names and
// for the check of a deployment, but no client that only a running function needs.
func TestDependencies(t *testing.T) {
	const module = "github.com/weir-limits/weir/"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	own := 0
	for path := range strings.Lines(string(out)) {
		path = strings.TrimSpace(path)
		name, ours := strings.CutPrefix(path, module)
		switch {
		case strings.HasPrefix(path, "github.com/aws/aws-sdk-go-v2/config"), strings.Contains(path, "go-redis"),
			strings.Contains(path, "franz-go"),
			ours && strings.HasPrefix(name, "local/"):
			t.Errorf("imports of infra: got %s, want no such client and no package of local", path)
		case ours:
			own++
		}
	}
	if own < 4 {
		t.Errorf("packages of the module: got %d, want at least 4, in\n%s", own, out)
	}
}
