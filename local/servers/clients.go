package servers

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// clientsDir pins the npm packages of Lambda's runtime for Node.js, below the root of the checkout.
const clientsDir = "local/servers/clients"

// NodeRuntime is Lambda's runtime for Node.js.
type NodeRuntime struct {
	Node   string   // program of Node.js
	Client string   // main module of the runtime interface client; its argument is the handler
	Files  []string // folders of the modules that Client imports
}

// NodeRuntimeIn returns the runtime in a folder that FetchClients returned.
func NodeRuntimeIn(clients string) NodeRuntime {
	client := filepath.Join(clients, "aws-lambda-ric")
	return NodeRuntime{
		Node: filepath.Join(nodePackage(clients), "bin", "node"), Client: filepath.Join(client, "index.mjs"), Files: []string{client, filepath.Join(clients, "@aws")},
	}
}

// nodePackage returns the folder of Node.js for this machine.
func nodePackage(clients string) string {
	return filepath.Join(clients, "node-linux-"+strings.Replace(runtime.GOARCH, "amd64", "x64", 1))
}

// FetchClients returns the folder of Lambda's runtime interface client for Node.js, in the version that the
// checkout at root pins, and of Node.js 22. It fetches and compiles them once.
func FetchClients(ctx context.Context, root string, progress io.Writer) (string, error) {
	dir := filepath.Join(root, clientsDir)
	clients := filepath.Join(dir, "node_modules")
	if runtime.GOOS != "linux" {
		return "", fmt.Errorf("clients: got %s, want Linux, which the runtime interface client for Node.js needs", runtime.GOOS)
	}
	for _, program := range []string{"npm", "cmake", "g++", "make", "python3"} {
		if !onPath(program) {
			return "", fmt.Errorf("clients: %s %w on the PATH; it builds the runtime interface client for Node.js (Debian: apt-get install npm cmake g++ make python3)", program, errMissing)
		}
	}
	err := fetchOnce(ctx, filepath.Join(dir, "package-lock.json"), filepath.Join(clients, "fetched"), clients+".lock", func() error {
		fmt.Fprintln(progress, "fetching and compiling the runtime interface client for Node.js, once; about a minute ...")
		node := nodePackage(clients)
		for _, args := range [][]string{{"ci", "--ignore-scripts", "--no-progress"}, {"rebuild", "aws-lambda-ric", "--ignore-scripts=false"}} {
			c := exec.CommandContext(ctx, "npm", args...)
			c.Dir = dir
			c.Env = append(os.Environ(), "PATH="+filepath.Join(node, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"), "npm_config_nodedir="+node)
			if out, err := c.CombinedOutput(); err != nil {
				return fmt.Errorf("npm %s: %w: %s", args[0], err, out)
			}
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("clients: %w", err)
	}
	return clients, nil
}
