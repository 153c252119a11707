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
	folder := t.TempDir()
	script, addresses := filepath.Join(folder, contract.LayerWrapper), filepath.Join(folder, contract.LayerAddress)
	if err := os.WriteFile(script, []byte(contract.LayerScript()), 0o700); err != nil {
		t.Fatal(err)
	}
	run := func() (string, error) {
		c := exec.CommandContext(t.Context(), script, "sh", "-c", `echo "$AWS_LAMBDA_RUNTIME_API" "$1"`, "runtime", "an argument")
		c.Env = append(os.Environ(), "AWS_LAMBDA_RUNTIME_API=127.0.0.1:9000", "TMPDIR=/missing", contract.VariableLayerFolder+"="+folder)
		out, err := c.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	if got, err := run(); err == nil || !strings.Contains(got, addresses) {
		t.Errorf("without the extension: got %q (%v), want an error with the file", got, err)
	}
	writeFile(t, addresses, "127.0.0.2:9001\n")
	if got, err := run(); err != nil || got != "127.0.0.2:9001 an argument" {
		t.Errorf("got %q (%v), want the address of the extension and the argument", got, err)
	}
	if content, err := os.ReadFile(addresses); err != nil || string(content) != "127.0.0.2:9001\n127.0.0.1:9000\n" {
		t.Errorf("addresses: got %q (%v), want those of the extension and of the other proxy", content, err)
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// If the function has a proxy, the runtime reaches the extension without it. Otherwise the script sets no variable.
func TestLayerScript_proxy(t *testing.T) {
	const proxy = "http_proxy=http://proxy:3128"
	for _, c := range []struct {
		variables []string
		want      string // no_proxy and NO_PROXY
	}{
		{nil, "unset unset"},
		{[]string{"NO_PROXY=a"}, "unset a"},
		{[]string{proxy}, "127.0.0.2 127.0.0.2"},
		{[]string{"HTTP_PROXY=http://proxy:3128"}, "127.0.0.2 127.0.0.2"},
		{[]string{"all_proxy=http://proxy:3128"}, "127.0.0.2 127.0.0.2"},
		{[]string{"ALL_PROXY=http://proxy:3128"}, "127.0.0.2 127.0.0.2"},
		{[]string{proxy, "NO_PROXY=a, b"}, "a, b,127.0.0.2 a, b,127.0.0.2"},
		{[]string{proxy, "no_proxy=a"}, "a,127.0.0.2 a,127.0.0.2"},
		{[]string{proxy, "no_proxy=a", "NO_PROXY=b"}, "a,127.0.0.2 b,127.0.0.2"},
		{[]string{proxy, "no_proxy=*", "NO_PROXY=b"}, "* b,127.0.0.2"},
		{[]string{proxy, "NO_PROXY=*"}, "* *"},
	} {
		wrapper := exec.CommandContext(t.Context(), "/bin/sh", "-c", contract.LayerScript(), "weir", "sh", "-c",
			`echo "${no_proxy-unset}" "${NO_PROXY-unset}"`)
		folder := t.TempDir()
		writeFile(t, filepath.Join(folder, contract.LayerAddress), "127.0.0.2:9001\n")
		wrapper.Env = append([]string{"PATH=" + os.Getenv("PATH"), contract.VariableLayerFolder + "=" + folder,
			"AWS_LAMBDA_RUNTIME_API=127.0.0.1:9001"}, c.variables...)
		out, err := wrapper.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != c.want {
			t.Errorf("%q: got %q (%v), want %q", c.variables, got, err, c.want)
		}
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
	if got := contract.LayerVariable("STORE"); got != "WEIR_STORE" {
		t.Errorf("got %s, want WEIR_STORE", got)
	}
}
