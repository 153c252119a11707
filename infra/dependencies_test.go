package main

import (
	"os/exec"
	"strings"
	"testing"
)

// A user's CDK app links everything that these packages import. Of this module they may import only
// functions/contract and functions/edge, neither the limiter nor an AWS client.
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
		case strings.HasPrefix(path, "github.com/aws/aws-sdk-go"):
			t.Errorf("imports of infra: got %s, want no client of AWS", path)
		case !ours:
		case name == "infra" || strings.HasPrefix(name, "infra/") || name == "functions/contract" || name == "functions/edge":
			own++
		default:
			t.Errorf("imports of infra: got %s, want only functions/contract and functions/edge", name)
		}
	}
	if own < 4 {
		t.Errorf("packages of the module: got %d, want at least 4, in\n%s", own, out)
	}
}
