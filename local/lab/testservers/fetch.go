package testservers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/weir-limits/weir/local/servers"
)

// The Python tools, the npm packages and the jars that tests use: the file that pins the versions, and the folder that has
// them, below the root of the checkout.
const (
	toolsPins   = "infra/tools/requirements.txt"
	toolsDir    = ".bin/venv"
	clientsPins = "local/servers/clients/package-lock.json"
	clientsDir  = "local/servers/clients/node_modules"
	kafkaPins   = "local/lab/testservers/kafka/pom.xml"
	kafkaDir    = ".bin/kafka"
)

// fetchOnce runs the commands that fetch what the file at pinned pins into dir, unless the copy of this file in dir is equal.
// Only one process fetches at a time.
func fetchOnce(ctx context.Context, pinned, dir string, progress io.Writer, what string, commands ...[]string) error {
	want, err := os.ReadFile(pinned)
	if err != nil {
		return fmt.Errorf("run this inside a checkout of Weir: %w", err)
	}
	stamp := filepath.Join(dir, filepath.Base(pinned))
	fetched := func() bool {
		got, err := os.ReadFile(stamp)
		return err == nil && bytes.Equal(got, want)
	}
	if fetched() {
		return nil
	}
	unlock, err := lockFile(ctx, dir+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if fetched() { // another process has fetched the files during the wait for the lock
		return nil
	}
	fmt.Fprintf(progress, "fetching %s, once ...\n", what)
	if err := run(ctx, commands); err != nil {
		return fmt.Errorf("fetch %s: %w", what, err)
	}
	return os.WriteFile(stamp, want, 0o600)
}

// fetchTools provides the folder with the SAM CLI, cfn-lint, and the Python of the packages.
func fetchTools(ctx context.Context, root string, progress io.Writer) (string, *servers.Server, error) {
	pins, dir := filepath.Join(root, toolsPins), filepath.Join(root, toolsDir)
	programs := filepath.Join(dir, "bin")
	// --no-deps, because the lock file already lists all packages. --only-binary, because the installation of a wheel runs no code
	// of the package. --no-compile, because Python compiles a module when a program imports it.
	err := fetchOnce(ctx, pins, dir, progress, "the SAM CLI, cfn-lint and the CDK for Python",
		[]string{"python3", "-m", "venv", "--clear", dir},
		[]string{filepath.Join(programs, "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
			"--require-hashes", "--only-binary=:all:", "--no-compile", "-r", pins})
	return programs, nil, err
}

// fetchClients provides the folder of Lambda's runtime interface client for Node.js, of SDKs of APIs, and of Node.js 22.
func fetchClients(ctx context.Context, root string, progress io.Writer) (string, *servers.Server, error) {
	if runtime.GOOS != "linux" {
		return "", nil, fmt.Errorf("clients: got %s, want Linux, which the runtime interface client for Node.js needs", runtime.GOOS)
	}
	dir := filepath.Join(root, clientsDir)
	node, _ := Node(dir)
	programs := filepath.Dir(node)
	npm := []string{"env", "PATH=" + programs + string(os.PathListSeparator) + os.Getenv("PATH"), "npm_config_nodedir=" +
		filepath.Dir(programs), "npm", "--prefix", filepath.Dir(dir)}
	err := fetchOnce(ctx, filepath.Join(root, clientsPins), dir, progress, "Lambda's runtime for Node.js, and compiling it",
		append(slices.Clip(npm), "ci", "--ignore-scripts", "--no-progress"),
		append(slices.Clip(npm), "rebuild", "aws-lambda-ric", "--ignore-scripts=false"))
	return dir, nil, err
}

// fetchKafka returns the folder of the jars.
func fetchKafka(ctx context.Context, root string, progress io.Writer) (string, error) {
	pins, dir := filepath.Join(root, kafkaPins), filepath.Join(root, kafkaDir)
	return dir, fetchOnce(ctx, pins, dir, progress, "Apache Kafka, 46 MB", []string{"rm", "-rf", dir},
		[]string{"mvn", "-B", "-q", "-f", pins, "dependency:copy-dependencies", "-DoutputDirectory=" + dir})
}

// Node returns the programs of Node.js and of the main module of Lambda's runtime interface client, whose argument is the
// handler. clients is the folder in WEIR_CLIENTS.
func Node(clients string) (node, client string) {
	arch := strings.Replace(runtime.GOARCH, "amd64", "x64", 1)
	return filepath.Join(clients, "node-linux-"+arch, "bin", "node"), filepath.Join(clients, "aws-lambda-ric", "index.mjs")
}
