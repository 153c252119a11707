package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-limits/weir/local/checkout"
)

// templateFor returns a template with a REST API, an HTTP API and a function. The code of the
// function is in the same folder.
func templateFor(t *testing.T, architecture string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "asset.1"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"asset.1/bootstrap": "program",
		"keys":              "key",
		"t.json": fmt.Sprintf(`{"Parameters":{"P":{"Type":"String"}},"Resources":{
			"Handler":{"Type":"AWS::Lambda::Function","Properties":{"Architectures":[%q],"Environment":{"Variables":{"STORE":"redis:",
				"KEPT":"kept"}}},"Metadata":{"aws:asset:path":"asset.1"}},
			"Rest":{"Type":"AWS::ApiGateway::RestApi"},"Http":{"Type":"AWS::ApiGatewayV2::Api"}}}`, architecture),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "t.json")
}

func TestSynthesizedTemplate(t *testing.T) {
	path := templateFor(t, checkout.HostArch())
	template, err := readSAMTemplate(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := template.place(dir, map[string]string{"jwks.json": filepath.Join(filepath.Dir(path), "keys")},
		map[string]string{"STORE": "memory:", "NEW": "new"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"bootstrap": "program", "jwks.json": "key"} {
		if got, err := os.ReadFile(filepath.Join(dir, "Handler", name)); err != nil || string(got) != want {
			t.Errorf("%s: got %q, error %v, want %q", name, got, err, want)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "Handler", "jwks.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of a copied secret: got %v, error %v, want only the owner to read it", info, err)
	}
	written := filepath.Join(dir, "rest.json")
	if err := template.write(written, httpAPIType); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(written)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"Rest":`, `"P":`, `"STORE":"memory:"`, `"KEPT":"kept"`, `"NEW":"new"`, fmt.Sprintf(`"aws:asset:path":%q`,
		filepath.Join(dir, "Handler"))} {
		if !strings.Contains(string(got), want) {
			t.Errorf("template: got %s, want %s in it", got, want)
		}
	}
	if strings.Contains(string(got), `"Http"`) {
		t.Errorf("template without the HTTP API: got %s, want no resource Http", got)
	}
}

func TestSynthesizedTemplate_mistakes(t *testing.T) {
	template, err := readSAMTemplate(templateFor(t, "riscv"))
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("function Handler: Architectures: got [riscv], want %s for containers on this machine; run make synth ARCH=%[1]s",
		checkout.HostArch())
	if err := template.place(t.TempDir(), nil, nil); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err := readSAMTemplate("nowhere.json"); err == nil || !strings.Contains(err.Error(), "make synth writes it") {
		t.Errorf("missing template: got error %v, want an error that contains \"make synth\"", err)
	}
	for _, name := range []string{"DYNAMODB_ENDPOINT", "DOCKER_HOST", "WEIR_TOOLS"} {
		t.Setenv(name, "")
	}
	if code, _, errs := tool(t, "sam"); code != 1 || !strings.Contains(errs, "all three are required; run make sam") {
		t.Errorf("no template argument: got exit %d, stderr %q, want exit 1 and the missing variables", code, errs)
	}
}
