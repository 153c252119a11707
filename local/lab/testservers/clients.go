package testservers

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/weir-limits/weir/local/servers"
)

// clientsDir pins the npm packages of Lambda's runtime for Node.js and of SDKs of APIs, below the root of the checkout.
const clientsDir = "local/servers/clients"

// FetchClients returns the folder of Lambda's runtime interface client for Node.js and of SDKs of APIs, in the versions that
// the checkout at root pins, and of Node.js 22. It fetches and compiles them once.
func FetchClients(ctx context.Context, root string, progress io.Writer) (string, error) {
	dir := filepath.Join(root, clientsDir)
	clients := filepath.Join(dir, "node_modules")
	if runtime.GOOS != "linux" {
		return "", fmt.Errorf("clients: got %s, want Linux, which the runtime interface client for Node.js needs", runtime.GOOS)
	}
	for _, program := range []string{"npm", "cmake", "g++", "make", "python3"} {
		if !onPath(program) {
			return "", fmt.Errorf("clients: %s %w on the PATH; it builds the runtime interface client for Node.js (Debian: apt-get install npm "+
				"cmake g++ make python3)", program, servers.ErrMissing)
		}
	}
	err := fetchOnce(ctx, filepath.Join(dir, "package-lock.json"), filepath.Join(clients, "fetched"), clients+".lock", func() error {
		fmt.Fprintln(progress, "fetching and compiling the runtime interface client for Node.js, once; about a minute ...")
		node := servers.NodeRuntimeIn(clients).Node
		for _, args := range [][]string{{"ci", "--ignore-scripts", "--no-progress"}, {"rebuild", "aws-lambda-ric", "--ignore-scripts=false"}} {
			c := exec.CommandContext(ctx, "npm", args...)
			c.Dir = dir
			c.Env = append(os.Environ(), "PATH="+filepath.Dir(node)+string(os.PathListSeparator)+os.Getenv("PATH"), "npm_config_nodedir="+
				filepath.Dir(filepath.Dir(node)))
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
