package contract_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/contract"
)

// The wrapper starts the runtime, with its arguments, at the address of the extension.
func TestLayerScript(t *testing.T) {
	script := filepath.Join(t.TempDir(), contract.LayerWrapper)
	if err := os.WriteFile(script, []byte(contract.LayerScript()), 0o700); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), script, "sh", "-c", `echo "$AWS_LAMBDA_RUNTIME_API" "$1"`, "runtime", "an argument")
	c.Env = append(os.Environ(), "AWS_LAMBDA_RUNTIME_API=127.0.0.1:9001")
	out, err := c.CombinedOutput()
	if got, want := strings.TrimSpace(string(out)), "127.0.0.2:9001 an argument"; err != nil || got != want {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
}

// Every variable of functions/boot has a name of its own in a function with the layer.
func TestLayerVariable(t *testing.T) {
	names := map[string]string{}
	for _, name := range append(variablesOf(reflect.TypeFor[boot.Config]()), contract.VariableLocal) {
		layered := contract.LayerVariable(name)
		if before, found := names[layered]; found && before != name || !strings.HasPrefix(layered, "WEIR_") {
			t.Errorf("%s: got the name %s, which %q has too, want a unique name with the prefix WEIR_", name, layered, before)
		}
		names[layered] = name
	}
	if got := contract.LayerVariable("TABLE"); got != "WEIR_TABLE" {
		t.Errorf("got %s, want WEIR_TABLE", got)
	}
}
