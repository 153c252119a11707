package testservers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/weir-limits/weir/local/servers"
)

// SAM runs the SAM CLI. Make one with NewSAM.
type SAM struct {
	program     string
	environment []string
	image       []string // command-line options that select the image of the functions
	engine      engine
	tools       string
}

// ContainerHost is the name of this machine in the containers of the SAM CLI.
const ContainerHost = "host.docker.internal"

// NewSAM returns the SAM CLI in tools, which is the folder in WEIR_TOOLS. It uses
// the Docker engine at docker, and keeps its files in dir. If the image of Lambda cannot be
// pulled, NewSAM uses a stand-in image and reports that to progress.
func NewSAM(ctx context.Context, tools, docker, dir string, progress io.Writer) (*SAM, error) {
	s := &SAM{program: filepath.Join(tools, "sam"), environment: samEnvironment(docker, dir), engine: engine(docker), tools: tools}
	// Without this file, the SAM CLI would look for a newer version once a week.
	checked := fmt.Sprintf(`{"telemetryEnabled":false,"lastVersionCheck":%d}`, time.Now().Unix())
	if err := os.WriteFile(filepath.Join(dir, "metadata.json"), []byte(checked), 0o600); err != nil {
		return nil, err
	}
	return s, s.chooseImage(ctx, progress)
}

// samEnvironment returns the environment variables of the SAM CLI. The SAM CLI does not inherit the
// variables of this process, for two reasons. It would set inherited variables in the functions, where
// they would override the variables of the template. It would also send inherited credentials to AWS.
func samEnvironment(docker, dir string) []string {
	environment := []string{"DOCKER_HOST=" + docker, "SAM_CLI_TELEMETRY=0", "__SAM_CLI_APP_DIR=" + dir,
		"AWS_DEFAULT_REGION=us-east-1", "AWS_CONFIG_FILE=" + os.DevNull, "AWS_SHARED_CREDENTIALS_FILE=" + os.DevNull,
		"AWS_EC2_METADATA_DISABLED=true"}
	for _, name := range []string{"PATH", "HOME", "LANG", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			environment = append(environment, name+"="+value)
		}
	}
	return environment
}

// StartAPI starts `sam local start-api` for a template at a port of loopback. The SAM CLI and
// the functions write their logs to log.
func (s *SAM) StartAPI(ctx context.Context, template string, port int, log io.Writer) (*servers.Server, error) {
	args := s.arguments("start-api", template, "--port", strconv.Itoa(port), "--warm-containers", "EAGER")
	command := exec.Command(s.program, args...) //nolint:noctx // it outlives the start
	command.Env, command.Stderr = s.environment, log
	address := fmt.Sprintf("http://127.0.0.1:%d", port)
	return servers.Start(ctx, "sam", address, command, func(ctx context.Context) error { return servers.Answers(ctx, address) })
}

// Invoke runs `sam local invoke` and returns the answer of one function to one event. function
// is a logical id of the template. Each call starts a container.
func (s *SAM) Invoke(ctx context.Context, template, function string, event []byte) ([]byte, error) {
	command := exec.CommandContext(ctx, s.program, s.arguments("invoke", template, "--event", "-", function)...)
	var log bytes.Buffer
	command.Env, command.Stdin, command.Stderr = s.environment, bytes.NewReader(event), &log
	answer, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("sam local invoke %s: %w: %s", function, err, &log)
	}
	return answer, nil
}

func (s *SAM) arguments(command, template string, more ...string) []string {
	arguments := []string{"local", command, "--template", template, "--skip-pull-image", "--add-host", ContainerHost + ":host-gateway"}
	return append(append(arguments, s.image...), more...)
}

// FromContainer returns the URL under which a container reaches a server on this machine.
func FromContainer(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	u.Host = ContainerHost + ":" + u.Port()
	return u.String(), nil
}
