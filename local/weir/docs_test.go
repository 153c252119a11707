package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command/commandtest"
)

// make only prints its commands in these tests. Other CI jobs run its targets, and some targets need
// an AWS account.
const shellPrelude = `set -euo pipefail
make() { command make --no-print-directory -n -C "$CHECKOUT" "$@" >/dev/null; }
`

var (
	shellBlock = regexp.MustCompile("(?m)(?:^<!-- not run: (.+) -->\n+)?^```sh\n((?s:.*?))^```$")
	weirLine   = regexp.MustCompile(`(?m)\.bin/weir ([a-z][^\n|;&)#]*)`)
)

// Every command in the documents works as written. If a block cannot run in this test, a comment above
// the block states the reason. The test then only checks that the commands and flags exist.
func TestDocs_commands(t *testing.T) {
	root := realCheckout(t)
	c := checkouttest.Scratch(t)
	installSelf(t, c.Path(".bin"))
	gateway := commandtest.Start(t, []string{"serve"})
	for _, file := range documents(t, root) {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range shellBlock.FindAllStringSubmatch(string(text), -1) {
			t.Run(fmt.Sprintf("%s#%d", file, i+1), func(t *testing.T) {
				for _, line := range weirLine.FindAllStringSubmatch(block[2], -1) {
					checkUsage(t, line[1])
				}
				if block[1] == "" {
					runShell(t, root, c.Root, atPort("export WEIR_URL="+defaultGateway+"\n"+block[2], gateway.Port))
				}
			})
		}
	}
}

// realCheckout returns the path of the checkout that contains the tests, without symbolic links.
func realCheckout(t *testing.T) string {
	t.Helper()
	c, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	return c.Root
}

// installSelf puts the program under test into folder as weir.
func installSelf(t *testing.T, folder string) {
	t.Helper()
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "weir"), []byte(commandtest.Script(self)),
		0o700); err != nil { //nolint:gosec // the file is a script, so it must be executable
		t.Fatal(err)
	}
}

// documents returns the paths of the project's documents, relative to root.
func documents(t *testing.T, root string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == "dist" || entry.Name() == "cdk.out" || entry.Name() != "." &&
			entry.Name() != ".github" && strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case strings.HasSuffix(path, ".md"):
			file, err := filepath.Rel(root, path)
			files = append(files, file)
			return err
		}
		return nil
	})
	if err != nil || !slices.Contains(files, "README.md") {
		t.Fatalf("documents: got %v, error %v, want README.md among them", files, err)
	}
	return files
}

// checkUsage fails the test for an unknown command or flag in a command line of weir.
func checkUsage(t *testing.T, line string) {
	t.Helper()
	command, arguments, err := rootCommand().Find(strings.Fields(line))
	if err != nil || command.HasSubCommands() {
		t.Errorf("weir %s: got an unknown command (%v), want one of weir's", line, err)
		return
	}
	for _, argument := range arguments {
		if argument == "--" { // the arguments after -- belong to another program
			return
		}
		name, isFlag := strings.CutPrefix(argument, "--")
		name, _, _ = strings.Cut(name, "=")
		if isFlag && command.Flags().Lookup(name) == nil && command.InheritedFlags().Lookup(name) == nil && name != "help" {
			t.Errorf("weir %s: got the unknown flag --%s, want one of its flags", command.CommandPath(), name)
		}
	}
}

// atPort replaces the port of the gateway in script.
func atPort(script string, port int) string {
	for i := range 2 {
		script = strings.ReplaceAll(script, fmt.Sprintf("127.0.0.1:%d", 8080+i), fmt.Sprintf("127.0.0.1:%d", port+i))
	}
	return script
}

// runShell runs a script of a document in folder, with the Makefile of root, and returns what it prints.
func runShell(t *testing.T, root, folder, script string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-c", shellPrelude+script)
	shell.Dir = folder
	shell.Env = append(os.Environ(), "CHECKOUT="+root, "MAKEFLAGS=", "MAKELEVEL=")
	out, err := shell.CombinedOutput()
	if err != nil {
		t.Errorf("commands: got error %v, want none\n%s\nof:\n%s", err, out, script)
	}
	return string(out)
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	unnamed = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// Every link in the documents has a target: a file, or a heading in a document.
func TestDocs_links(t *testing.T) {
	root := realCheckout(t)
	known := map[string][]string{} // anchors, by the path of the document
	for _, file := range documents(t, root) {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			target, anchor, _ := strings.Cut(found[1], "#")
			path := filepath.Join(root, file)
			if target != "" {
				path = filepath.Join(filepath.Dir(path), target)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: link to %s: got error %v, want an existing file", file, found[1], err)
				continue
			}
			if anchor == "" {
				continue
			}
			if known[path] == nil {
				known[path] = anchors(t, path)
			}
			if !slices.Contains(known[path], anchor) {
				t.Errorf("%s: link to %s: got no such heading, want an existing one", file, found[1])
			}
		}
	}
}

// anchors returns the link names of the headings in a document.
func anchors(t *testing.T, path string) (names []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range heading.FindAllStringSubmatch(string(text), -1) {
		name := unnamed.ReplaceAllString(strings.ToLower(found[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}
