package testservers

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/weir-limits/weir/local/servers"
)

// StartMoto fetches the tools of the checkout at root once, and starts Moto, an emulator of AWS.
func StartMoto(ctx context.Context, root string, progress io.Writer) (*servers.Server, error) {
	tools, err := FetchTools(ctx, root, progress)
	if err != nil {
		return nil, err
	}
	port, err := servers.FreePort(ctx)
	if err != nil {
		return nil, fmt.Errorf("start moto: %w", err)
	}
	command := exec.Command(filepath.Join(tools, "moto_server"), "--host", "127.0.0.1", "--port", strconv.Itoa(port)) //nolint:noctx // it outlives the start
	// Functions need no bucket with their code, because nothing invokes them.
	command.Env = append(os.Environ(), "VALIDATE_LAMBDA_S3=false")
	address := "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return servers.Start(ctx, "moto", address, command, func(ctx context.Context) error { return servers.Answers(ctx, address) })
}
