package release_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/lab/release"
)

// program returns a built program. The tests cannot use the test binary, because the go command records
// no modules in test binaries.
var program = sync.OnceValues(func() ([]byte, error) {
	folder, err := os.MkdirTemp("", "release-")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(folder, "bootstrap")
	out, err := exec.Command("go", "-C", "../../..", "build", "-trimpath", "-ldflags", "-s -w", "-o", path,
		"./functions/deploy").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	content, err := os.ReadFile(path)
	return content, errors.Join(err, os.RemoveAll(folder))
})

// folders returns the module cache and the toolchain of the go command.
var folders = sync.OnceValues(func() ([]string, error) {
	out, err := exec.Command("go", "env", "GOMODCACHE", "GOROOT").Output()
	return strings.Fields(string(out)), err
})

// few are enough programs of a release that Write refuses.
var few = []string{"arm64/authorizer/bootstrap", "weir/linux_amd64/weir"}

// programs returns the programs of a release in a new folder.
func programs(t *testing.T, paths ...string) release.Programs {
	t.Helper()
	content, err := program()
	if err != nil {
		t.Fatal(err)
	}
	sources, err := folders()
	if err != nil {
		t.Fatal(err)
	}
	dist := t.TempDir()
	for _, path := range paths {
		write(t, filepath.Join(dist, path), content)
	}
	write(t, filepath.Join(dist, "rules.json"), []byte("{}\n"))
	write(t, filepath.Join(dist, "weir.template.json"), []byte("{}\n"))
	write(t, filepath.Join(dist, "LICENSE"), []byte("license\n"))
	write(t, filepath.Join(dist, "CHANGELOG.md"), []byte("# Changelog\n\n## Next\n\n- later\n\n## v1.2.0\n\n- this "+
		"[one](infra/README.md#a), not https://a.example\n\n## v1.1.0\n\n- before\n"))
	write(t, filepath.Join(dist, "TEMPLATE.md"), []byte("[a](README.md#x) [b](../limiter/y.md) [c](#here) [d](https://a.example) v1.0.0\n"))
	return release.Programs{
		Page: filepath.Join(dist, "TEMPLATE.md"), Examples: "../../../infra/examples", Policies: "../../../infra/policies",
		Version: "v1.2.0", Functions: dist, Commands: filepath.Join(dist, "weir"),
		Rules: filepath.Join(dist, "rules.json"), Templates: []string{filepath.Join(dist, "weir.template.json")},
		License: filepath.Join(dist, "LICENSE"), Changelog: filepath.Join(dist, "CHANGELOG.md"),
		Modules: sources[0], Toolchain: sources[1], Chart: "../../console/web/uplot",
	}
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// read returns the contents of the files in a folder, by name.
func read(t *testing.T, folder string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, entry := range entries {
		files[entry.Name()], err = os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// complete returns the programs of a release. The command has the chart library of the console.
func complete(t *testing.T) release.Programs {
	t.Helper()
	p := programs(t, append(few, "x86_64/authorizer/bootstrap", "arm64/extension/bootstrap")...)
	embedChart(t, p)
	return p
}

var (
	writing sync.Once
	written map[string][]byte
)

// released returns the files of one release, by name. Tests share it, because the compression takes a second.
func released(t *testing.T) map[string][]byte {
	t.Helper()
	writing.Do(func() {
		dir := filepath.Join(t.TempDir(), "release")
		if _, err := release.Write(dir, complete(t)); err != nil {
			t.Fatal(err)
		}
		written = read(t, dir)
	})
	if written == nil {
		t.Fatal("release: got none, want that of an earlier test")
	}
	return written
}

// Two releases of the same programs have the same bytes, although their folders and times differ.
func TestWrite_reproducible(t *testing.T) {
	second, later := filepath.Join(t.TempDir(), "two"), complete(t)
	if err := os.Chtimes(filepath.Join(later.Functions, "arm64/authorizer/bootstrap"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	names, err := release.Write(second, later)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"CHANGES.md", "TEMPLATE.md", "authorizer_arm64.zip", "authorizer_x86_64.zip", "deployer-policy.json", "examples.tar.gz",
		"layer-arm64.zip", "operator-policy.json", "sbom.cdx.json", "weir.template.json", "weir_linux_amd64.tar.gz", "SHA256SUMS"}
	if !slices.Equal(names, want) {
		t.Fatalf("got the files %q, want %q", names, want)
	}
	if !maps.EqualFunc(released(t), read(t, second), bytes.Equal) {
		t.Error("got different bytes for the same programs, want the same")
	}
}

// Lambda and a shell can execute the packed programs, and SHA256SUMS has the digest of every file.
func TestWrite_contents(t *testing.T) {
	files := released(t)
	want, err := program()
	if err != nil {
		t.Fatal(err)
	}

	layer := map[string]fs.FileMode{"extensions/weir": 0o755, "weir": 0o755, "weir-rules.json": 0o644, "weir-LICENSE": 0o644,
		"weir-THIRD-PARTY-LICENSES": 0o644}
	for name, modes := range map[string]map[string]fs.FileMode{
		"authorizer_arm64.zip": {"bootstrap": 0o755, "rules.json": 0o644, "LICENSE": 0o644, "THIRD-PARTY-LICENSES": 0o644},
		"layer-arm64.zip":      layer,
	} {
		z, err := zip.NewReader(bytes.NewReader(files[name]), int64(len(files[name])))
		if err != nil {
			t.Fatal(err)
		}
		packed := map[string]fs.FileMode{}
		for _, f := range z.File {
			packed[f.Name] = f.Mode().Perm()
		}
		if !maps.Equal(packed, modes) {
			t.Errorf("%s: got the modes %v, want %v", name, packed, modes)
		}
		if got, err := fs.ReadFile(z, z.File[0].Name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: got %d bytes (%v), want the %d of the program", name, len(got), err, len(want))
		}
		if got, err := fs.ReadFile(z, contract.LayerWrapper); len(modes) == len(layer) && (err != nil || string(got) != contract.LayerScript()) {
			t.Errorf("%s: got the wrapper %q (%v), want that of the contract", name, got, err)
		}
	}

	modes := members(t, files["weir_linux_amd64.tar.gz"])
	if want := map[string]int64{"LICENSE": 0o644, "THIRD-PARTY-LICENSES": 0o644, "weir": 0o755}; !maps.Equal(modes, want) {
		t.Errorf("weir_linux_amd64.tar.gz: got the modes %v, want %v", modes, want)
	}

	for name, content := range files {
		if line := fmt.Sprintf("%x  %s\n", sha256.Sum256(content), name); name != "SHA256SUMS" && !strings.Contains(string(files["SHA256SUMS"]),
			line) {
			t.Errorf("SHA256SUMS: want a line %q, got none", line)
		}
	}
	if got, want := string(files["CHANGES.md"]), "# Weir v1.2.0\n\n- this "+
		"[one](https://github.com/weir-limits/weir/blob/v1.2.0/infra/README.md#a), not https://a.example\n"; got != want {
		t.Errorf("CHANGES.md: got %q, want %q", got, want)
	}
}

// A release has the page of the template, with links into the repository and the version of the release, every file of the examples that
// the repository has, and the policies.
func TestWrite_guide(t *testing.T) {
	files := released(t)
	const repository = "https://github.com/weir-limits/weir/blob/v1.2.0/"
	if got, want := string(files["TEMPLATE.md"]), "[a]("+repository+"infra/README.md#x) [b]("+repository+
		"limiter/y.md) [c](#here) [d](https://a.example) v1.2.0\n"; got != want {
		t.Errorf("TEMPLATE.md: got %q, want %q", got, want)
	}
	for _, role := range []string{"deployer", "operator"} {
		if got := files[role+"-policy.json"]; !json.Valid(got) || !bytes.Contains(got, []byte(`"STACK`)) &&
			!bytes.Contains(got, []byte("/STACK")) {
			t.Errorf("%s-policy.json: got %s, want a policy for the stack STACK", role, got)
		}
	}
	tracked, err := exec.CommandContext(t.Context(), "git", "ls-files", "../../../infra/examples").Output()
	if err != nil {
		storetest.Unfetched(t, "tools", "git clone", err)
	}
	want := []string{}
	for name := range strings.Lines(string(tracked)) {
		name = strings.TrimSpace(name)
		if !strings.HasSuffix(name, "_test.go") && !strings.Contains(name, "/testdata/") {
			want = append(want, strings.TrimPrefix(name, "../../../infra/"))
		}
	}
	got := []string{}
	for name := range members(t, files["examples.tar.gz"]) {
		got = append(got, name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("examples.tar.gz: got %q, want %q", got, want)
	}
	if page := unpacked(t, files["examples.tar.gz"], "examples/express/README.md"); strings.Contains(page, "](../") ||
		!strings.Contains(page, repository) {
		t.Errorf("README.md of the example: got %s, want links into the repository", page)
	}
	for name, want := range map[string]string{"typescript/app.ts": `release = "v1.2.0"`, "python/app.py": `RELEASE = "v1.2.0"`,
		"terraform/main.tf": `prefix = "weir/v1.2.0/"`, "sam/template.yaml": "CodePrefix: weir/v1.2.0/"} {
		if text := unpacked(t, files["examples.tar.gz"], "examples/"+name); !strings.Contains(text, want) || strings.Contains(text, "v1.0.0") {
			t.Errorf("%s: got %s, want %s", name, text, want)
		}
	}
}

// members returns the modes of the files in a tar file, by name.
func members(t *testing.T, archive []byte) map[string]int64 {
	t.Helper()
	g, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]int64{}
	for r := tar.NewReader(g); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return modes
		}
		if err != nil {
			t.Fatal(err)
		}
		modes[header.Name] = header.Mode
	}
}

// embedChart adds the first line of uPlot to the command, as its page of the console contains it.
func embedChart(t *testing.T, p release.Programs) {
	t.Helper()
	library, err := os.ReadFile("../../console/web/uplot/uPlot.iife.min.js")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(p.Commands, "linux_amd64/weir")
	command, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := bytes.Cut(library, []byte("\n"))
	write(t, path, slices.Concat(command, line))
}

// modules returns the modules in the program, as go version prints them: the path, then the version.
func modules(t *testing.T) (all [][]string) {
	t.Helper()
	content, err := program()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "program")
	write(t, path, content)
	out, err := exec.CommandContext(t.Context(), "go", "version", "-m", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); fields[0] == "dep" {
			all = append(all, fields[1:3])
		}
	}
	if len(all) < 5 {
		t.Fatalf("got the modules %v, want at least 5", all)
	}
	return all
}

// modulesWithout returns a module cache in which each module of the program has a license, except one.
func modulesWithout(t *testing.T, path string) string {
	t.Helper()
	folder := t.TempDir()
	for _, m := range modules(t) {
		name := "LICENSE.txt"
		if m[0] == path {
			name = "NOTICE"
		}
		write(t, filepath.Join(folder, m[0]+"@"+m[1], name), []byte("text"))
		write(t, filepath.Join(folder, m[0]+"@"+m[1], "internal", "LICENSE"), []byte("text"))
	}
	return folder
}

// Each archive has the license of each component in its program, and the inventory lists the component.
func TestWrite_licenses(t *testing.T) {
	files := released(t)
	all := append(modules(t), []string{"std", runtime.Version()})
	for archive, want := range map[string][][]string{
		"authorizer_arm64.zip": all, "layer-arm64.zip": all, "weir_linux_amd64.tar.gz": append(all, []string{"uPlot", "1.6.32"}),
	} {
		text := unpacked(t, files[archive], "THIRD-PARTY-LICENSES")
		for _, component := range want {
			if source := "\n" + component[0] + " " + component[1] + ": LICENSE"; !strings.Contains(text, source) {
				t.Errorf("%s: got no line %q, want one", archive, source)
			}
			if got := strings.Count(string(files["sbom.cdx.json"]), fmt.Sprintf("\"name\": %q,\n", component[0])); got != 1 {
				t.Errorf("inventory: got %d entries of %s, want 1", got, component[0])
			}
		}
		for _, license := range []string{"Copyright 2009 The Go Authors.", "Licensed under the Apache License, Version 2.0",
			"AWS SDK for Go\nCopyright 2015 Amazon.com"} {
			if got := strings.Count(text, license); got == 0 {
				t.Errorf("%s: got no text %q, want one", archive, license)
			}
		}
		if got, want := strings.Contains(text, "Copyright (c) 2022 Leon Sorokin"), len(want) > len(all); got != want {
			t.Errorf("%s: license of uPlot: got %t, want %t", archive, got, want)
		}
		if own := unpacked(t, files[archive], "LICENSE"); own != "license\n" {
			t.Errorf("%s: LICENSE: got %q, want that of Weir", archive, own)
		}
	}
}

// unpacked returns a text of an archive. In the layer, its name has a prefix.
func unpacked(t *testing.T, archive []byte, name string) string {
	t.Helper()
	var opened io.Reader
	if z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive))); err == nil {
		for _, f := range z.File {
			if strings.TrimPrefix(f.Name, "weir-") == name {
				opened, err = f.Open()
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	} else if g, err := gzip.NewReader(bytes.NewReader(archive)); err == nil {
		r := tar.NewReader(g)
		for header, err := r.Next(); err == nil; header, err = r.Next() {
			if header.Name == name {
				opened = r
				break
			}
		}
	}
	if opened == nil {
		t.Fatalf("%s: got no such file in the archive, want one", name)
	}
	content, err := io.ReadAll(opened)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// The inventory lists each module of the programs once, and the standard library, with its Go version.
func TestWrite_inventory(t *testing.T) {
	var bom struct {
		BOMFormat, SpecVersion string
		Metadata               struct{ Timestamp string }
		Components             []struct{ Name, PURL string }
	}
	if err := json.Unmarshal(released(t)["sbom.cdx.json"], &bom); err != nil {
		t.Fatal(err)
	}
	if bom.BOMFormat != "CycloneDX" || bom.SpecVersion != "1.6" || bom.Metadata.Timestamp != "" {
		t.Errorf("got %s %s of the time %q, want CycloneDX 1.6 without a time", bom.BOMFormat, bom.SpecVersion, bom.Metadata.Timestamp)
	}
	names := map[string]int{}
	for _, c := range bom.Components {
		names[c.Name]++
		if !strings.HasPrefix(c.PURL, "pkg:golang/"+c.Name+"@") && !strings.HasPrefix(c.PURL, "pkg:npm/uplot@") {
			t.Errorf("%s: got the package URL %q, want that of a Go module or of uPlot", c.Name, c.PURL)
		}
	}
	for _, name := range []string{"std", "github.com/aws/aws-lambda-go"} {
		if names[name] != 1 {
			t.Errorf("%s: got %d entries in %v, want 1", name, names[name], names)
		}
	}
}

// If a release would be incomplete, Write returns an error and keeps the previous release.
func TestWrite_incomplete(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *release.Programs)
		want   string
	}{
		"version": {func(p *release.Programs) { p.Version = "1.2" }, `version: invalid (got "1.2", want a version such as v1.2.0)`},
		"no functions": {func(p *release.Programs) { p.Functions = filepath.Join(p.Functions, "weir") },
			"no file */*/bootstrap; build the programs first"},
		"no commands": {func(p *release.Programs) { p.Commands = filepath.Join(p.Commands, "none") }, "no file */weir; build the programs first"},
		"architecture": {func(p *release.Programs) {
			_ = os.Rename(filepath.Join(p.Functions, "arm64"), filepath.Join(p.Functions, "amd64"))
		}, `unknown architecture (got "amd64", want arm64 or x86_64)`},
		"no program": {func(p *release.Programs) {
			_ = os.WriteFile(filepath.Join(p.Functions, "arm64/authorizer/bootstrap"), []byte("text"), 0o600)
		}, "not a Go program"},
		"no rules":    {func(p *release.Programs) { p.Rules += ".none" }, "no such file"},
		"no page":     {func(p *release.Programs) { p.Page += ".none" }, "no such file"},
		"no examples": {func(p *release.Programs) { p.Examples = p.Commands }, "no file */*.py; build the programs first"},
		"no policies": {func(p *release.Programs) { p.Policies = p.Commands }, "no such file"},
		"no template": {func(p *release.Programs) { p.Templates[0] += ".none" }, "no such file"},
		"no license":  {func(p *release.Programs) { p.License += ".none" }, "no such file"},
		"no module":   {func(p *release.Programs) { p.Modules += ".none" }, "no such file"},
		"no license of a module": {func(p *release.Programs) { p.Modules = modulesWithout(t, "github.com/aws/aws-lambda-go") },
			"github.com/aws/aws-lambda-go v"},
		"no license of Go": {func(p *release.Programs) { p.Toolchain = t.TempDir() }, "no license file in "},
		"no license of uPlot": {func(p *release.Programs) {
			embedChart(t, *p)
			p.Chart = t.TempDir()
		}, "uPlot 1.6.32: no license file in "},
		"no section": {func(p *release.Programs) { _ = os.WriteFile(p.Changelog, []byte("# Changelog\n"), 0o600) },
			"no section for the release (want the heading v1.2.0 or Next)"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "release")
			write(t, filepath.Join(dir, "previous"), nil)
			p := programs(t, few...)
			c.change(&p)
			if _, err := release.Write(dir, p); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got the error %v, want %q", err, c.want)
			}
			if got := read(t, dir); len(got) != 1 || got["previous"] == nil {
				t.Errorf("got %d files, want only the files of the previous release", len(got))
			}
		})
	}
}
