package servers

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"
)

// SAM calls the SAM CLI. Make one with NewSAM.
type SAM struct {
	program     string
	environment []string
	image       []string // options that choose the image of the functions
}

// ContainerHost is this machine's name in the containers of the SAM CLI.
const ContainerHost = "host.docker.internal"

// Architecture returns what Lambda calls this machine's architecture. The SAM CLI runs
// functions for no other.
func Architecture() string {
	if runtime.GOARCH == "amd64" {
		return "x86_64"
	}
	return runtime.GOARCH
}

// NewSAM returns the SAM CLI of tools, the folder that FetchTools returns, on the Docker
// engine at docker. What it keeps is in dir. Where the image of Lambda cannot be pulled,
// progress is told what stands in for it.
func NewSAM(ctx context.Context, tools, docker, dir string, progress io.Writer) (*SAM, error) {
	e, err := newEngine(docker)
	if err != nil {
		return nil, err
	}
	s := &SAM{program: filepath.Join(tools, "sam"), environment: samEnvironment(docker, dir)}
	// It asks PyPI for newer versions of itself once a week.
	checked := fmt.Sprintf(`{"telemetryEnabled":false,"lastVersionCheck":%d}`, time.Now().Unix())
	if err := os.WriteFile(filepath.Join(dir, "metadata.json"), []byte(checked), 0o600); err != nil {
		return nil, err
	}
	s.image, err = lambdaImage(ctx, e, tools, progress)
	return s, err
}

// samEnvironment returns the environment of the SAM CLI. It is not that of this process:
// the SAM CLI would give its variables to the functions, above those of the template, and
// its credentials too, after it has asked AWS whose they are.
func samEnvironment(docker, dir string) []string {
	environment := []string{"DOCKER_HOST=" + docker, "SAM_CLI_TELEMETRY=0", "__SAM_CLI_APP_DIR=" + dir,
		"AWS_DEFAULT_REGION=us-east-1", "AWS_CONFIG_FILE=" + os.DevNull, "AWS_SHARED_CREDENTIALS_FILE=" + os.DevNull, "AWS_EC2_METADATA_DISABLED=true"}
	for _, name := range []string{"PATH", "HOME", "LANG", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			environment = append(environment, name+"="+value)
		}
	}
	return environment
}

// The image in which Lambda runs a provided.al2023 function, and one that stands in
// for it.
const (
	lambdaRepository = "public.ecr.aws/lambda/provided"
	lambdaTag        = "al2023-"
	standIn          = "weir-lambda"
	pullTimeout      = 2 * time.Minute
)

// lambdaImage returns the options by which the SAM CLI finds the image of the functions.
func lambdaImage(ctx context.Context, e *engine, tools string, progress io.Writer) ([]string, error) {
	tag := lambdaTag + Architecture()
	if e.has(ctx, lambdaRepository+":"+tag) {
		return nil, nil
	}
	pulling, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	failed := e.pull(pulling, lambdaRepository, tag)
	if failed == nil {
		return nil, nil
	}
	archive, err := standInImage(tools)
	if err != nil {
		return nil, err
	}
	// The SAM CLI puts its emulator into an image and gives that the tag rapid-<arch>; one
	// that has the tag already is taken as it is.
	repository := fmt.Sprintf("%s-%x", standIn, sha256.Sum256(archive))[:len(standIn)+13]
	if tag := "rapid-" + Architecture(); !e.has(ctx, repository+":"+tag) {
		if err := e.load(ctx, repository, tag, bytes.NewReader(archive)); err != nil {
			return nil, fmt.Errorf("image %s: %w", repository, err)
		}
	}
	fmt.Fprintf(progress, "NOTE: %s:%s cannot be pulled (%v).\n"+
		"NOTE: the functions run in %s instead, an image with nothing in it but the SAM CLI's own emulator of Lambda: not on Amazon Linux.\n", lambdaRepository, tag, failed, repository)
	return []string{"--invoke-image", repository + ":none"}, nil
}

// standInImage returns an archive of what the SAM CLI's emulator needs: a static
// bootstrap needs nothing.
func standInImage(tools string) ([]byte, error) {
	emulator := "aws-lambda-rie-" + Architecture()
	found, err := filepath.Glob(filepath.Join(filepath.Dir(tools), "lib/python3*/site-packages/samcli/local/rapid", emulator))
	if err != nil || len(found) == 0 {
		return nil, errors.Join(err, fmt.Errorf("the SAM CLI in %s has no %s", tools, emulator))
	}
	program, err := os.ReadFile(found[0])
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, dir := range []string{"opt/", "tmp/", "var/", "var/rapid/", "var/runtime/", "var/task/"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: int64(fs.ModePerm)}); err != nil {
			return nil, err
		}
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "var/rapid/aws-lambda-rie", Mode: int64(fs.ModePerm), Size: int64(len(program))}); err != nil {
		return nil, err
	}
	if _, err := w.Write(program); err != nil {
		return nil, err
	}
	return archive.Bytes(), w.Close()
}

// StartAPI starts `sam local start-api` on a template at a port of loopback. Its log, and
// the functions', go to log.
func (s *SAM) StartAPI(ctx context.Context, template string, port int, log io.Writer) (*Server, error) {
	command := exec.Command(s.program, s.arguments("start-api", template, "--port", strconv.Itoa(port), "--warm-containers", "EAGER")...) //nolint:noctx // it outlives the start
	command.Env, command.Stderr = s.environment, log
	address := fmt.Sprintf("http://127.0.0.1:%d", port)
	return start(ctx, "sam", address, command, func(ctx context.Context) error { return get(ctx, address) })
}

// Invoke is `sam local invoke`: it returns the answer of a function of a template, by its
// logical ID, to one event, in a container that is started for it.
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

// FromContainer returns the URL by which a container reaches a server on this machine.
func FromContainer(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	u.Host = ContainerHost + ":" + u.Port()
	return u.String(), nil
}
