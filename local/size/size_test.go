package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// arch is this machine's, as Lambda calls it.
var arch = map[string]string{"amd64": "x86_64", "arm64": "arm64"}[runtime.GOARCH]

// build builds the handler as `make functions` does, from a copy of the source, and
// returns the folder with what was built.
func build(t *testing.T, environment ...string) (dist string) {
	t.Helper()
	copied := t.TempDir()
	for _, name := range []string{"functions", "limiter"} {
		if err := os.CopyFS(filepath.Join(copied, name), os.DirFS(filepath.Join("../..", name))); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"Makefile", "go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join("../..", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(copied, name), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), "make", "-C", copied, "dist/"+arch+"/handler/bootstrap", "ARCH="+arch)
	c.Env = append(append(os.Environ(), "MAKEFLAGS="), environment...) // not those of a make that runs the tests
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return filepath.Join(copied, "dist")
}

// The same source gives the same bytes in another folder, and whatever its builder has
// set for other builds. Both builds have one cache, and it hides nothing: what a package
// is compiled to is looked up by all that goes into it, so a difference that this test is
// about, such as a path, is another entry.
func TestBuild(t *testing.T) {
	settings := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(settings, []byte("GOFLAGS=-gcflags=-N\nGOAMD64=v2\nGOARM64=v8.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dist := build(t)
	bootstrap, err := os.ReadFile(filepath.Join(dist, arch, "handler", "bootstrap"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(bootstrap, []byte(filepath.Dir(dist))) {
		t.Error("the bootstrap has the path that it was built in")
	}
	for name, environment := range map[string][]string{
		"another folder":   nil,
		"variables":        {"GOFLAGS=-tags=other", "GOAMD64=v3", "GOARM64=v8.2", "GOEXPERIMENT=jsonv2", "CGO_ENABLED=1", "GOFIPS140=latest"},
		"a file of go env": {"GOENV=" + settings},
	} {
		other, err := os.ReadFile(filepath.Join(build(t, environment...), arch, "handler", "bootstrap"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(bootstrap, other) {
			t.Errorf("%s: other bytes than those of the first build", name)
		}
	}
	t.Run("measured", func(t *testing.T) { measured(t, dist) })
}

// size runs a command line and returns its exit status and output.
func size(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// measured measures a bootstrap that was built.
func measured(t *testing.T, dist string) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: bootstraps are for Linux, and cannot be started here")
	}
	code, stdout, stderr := size(t, "-json", "-starts", "3", dist)
	var r report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 || len(r.Bundles) != 1 {
		t.Fatalf("status %d, %v: %s%s", code, err, stdout, stderr)
	}
	b := r.Bundles[0]
	if b.String() != arch+"/handler" || b.Binary <= b.Zipped || b.Zipped <= 0 || b.Inits["stand-in"] <= 0 {
		t.Errorf("measured %+v", b)
	}
	if _, ok := b.Inits["DynamoDB Local"]; ok != (os.Getenv("DYNAMODB_ENDPOINT") != "") {
		t.Errorf("DynamoDB Local is measured: %t", ok)
	}
}

// bootstrap writes one into a folder for what is built.
func bootstrap(t *testing.T, dist, arch string, content []byte) {
	t.Helper()
	folder := filepath.Join(dist, arch, "function")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "bootstrap"), content, 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestRun(t *testing.T) {
	t.Setenv("DYNAMODB_ENDPOINT", "")
	dist := t.TempDir()
	if code, _, stderr := size(t, dist); code != 1 || stderr != "size: nothing at "+dist+"/<arch>/<function>/bootstrap: make functions builds it\n" {
		t.Errorf("status %d: %s", code, stderr)
	}
	for _, bad := range [][]string{{"-starts", "0"}, {"a", "b"}, {"-what"}} {
		if code, _, _ := size(t, bad...); code != 2 {
			t.Errorf("%v: status %d", bad, code)
		}
	}

	noise := make([]byte, maxZipped) // does not get smaller
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	bootstrap(t, dist, "other", noise[:maxZipped-100_000])
	if code, stdout, _ := size(t, dist); code != 0 || strings.Contains(stdout, "GOAL") || !strings.Contains(stdout, "other/function") {
		t.Errorf("within the goal: status %d: %s", code, stdout)
	}
	bootstrap(t, dist, "other", noise)
	if code, stdout, _ := size(t, dist); code != 1 || !strings.Contains(stdout, "OVER THE GOAL: other/function is 8.00 MB zipped\n") {
		t.Errorf("over the goal: status %d: %s", code, stdout)
	}
}

// A bootstrap that does not start, or has something to say at its start, is a problem.
func TestRun_problem(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: bootstraps are for Linux, and cannot be started here")
	}
	t.Setenv("DYNAMODB_ENDPOINT", "")
	dist := t.TempDir()
	bootstrap(t, dist, arch, []byte("#!/bin/sh\necho \"STORE: got $STORE\"\nexit 1\n"))
	code, stdout, _ := size(t, "-starts", "1", dist)
	want := arch + "/function with stand-in: function function: init: the process has ended: exit status 1\nSTORE: got dynamodb\n"
	if code != 1 || !strings.Contains(stdout, want) {
		t.Errorf("status %d: %s\nwant %s", code, stdout, want)
	}
}

// A time over the goal is said, and is no failure.
func TestReport_print(t *testing.T) {
	r := report{MaxZipped: maxZipped, MaxInit: 60, stores: []store{{name: "memory"}, {name: "stand-in"}}, Bundles: []*bundle{
		{Function: "f", Arch: "arm64", Binary: 2_000_000, Zipped: 1_000_000},
		{Function: "f", Arch: "x86_64", Binary: 2_500_000, Zipped: 1_234_567, Inits: map[string]float64{"memory": 60, "stand-in": 60.04}},
	}}
	var out bytes.Buffer
	if err := r.print(&out); err != nil || !r.good() {
		t.Errorf("%v, good: %t", err, r.good())
	}
	want := `  bootstrap   binary   zipped  init, memory  init, stand-in
    arm64/f  2.00 MB  1.00 MB             -               -
   x86_64/f  2.50 MB  1.23 MB       60.0 ms         60.0 ms

goals: at most 8.00 MB zipped, 60 ms from the start to the first event asked for, on this machine's architecture
OVER THE GOAL: x86_64/f takes 60.0 ms with stand-in
`
	if out.String() != want {
		t.Errorf("\n got %s\nwant %s", out.String(), want)
	}
}
