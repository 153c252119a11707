package servers

import (
	"path/filepath"
	"runtime"
	"strings"
)

// NodeRuntime is Lambda's runtime for Node.js.
type NodeRuntime struct {
	Node   string   // program of Node.js
	Client string   // main module of the runtime interface client; its argument is the handler
	Files  []string // folders of the modules that Client imports
}

// NodeRuntimeIn returns the runtime in the folder of the npm packages that clients pins. `weir-tools with clients`
// sets WEIR_CLIENTS to that folder.
func NodeRuntimeIn(clients string) NodeRuntime {
	client := filepath.Join(clients, "aws-lambda-ric")
	return NodeRuntime{
		Node: filepath.Join(nodePackage(clients), "bin", "node"), Client: filepath.Join(client, "index.mjs"),
		Files: []string{client, filepath.Join(clients, "@aws")},
	}
}

// nodePackage returns the folder of Node.js for this machine.
func nodePackage(clients string) string {
	return filepath.Join(clients, "node-linux-"+strings.Replace(runtime.GOARCH, "amd64", "x64", 1))
}
