package servers

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// Another engine is one whose process runs.
func TestRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "docker.pid")
	if runs(file) {
		t.Error("a file that is not there")
	}
	for content, want := range map[string]bool{strconv.Itoa(os.Getpid()) + "\n": true, strconv.Itoa(os.Getpid()): true, "4194999": false, "": false, "0": false, "-1": false, "self": false} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := runs(file); got != want {
			t.Errorf("%q: got %t", content, got)
		}
	}
}
