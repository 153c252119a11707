package faults

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/weir-limits/weir/limiter"
)

// If processVariable is set, the test program runs as an environment. The environment prints a line when it
// is ready. When the environment has read a line, it sends one request. If Lambda's variables are set, the
// test program runs as a function instead.
const processVariable = "WEIR_FAULTS_PROCESS"

func TestMain(m *testing.M) {
	variables := os.Getenv(processVariable)
	if variables == "" {
		os.Exit(m.Run())
	}
	e, err := buildEnvironment(strings.Fields(variables), slog.New(slog.DiscardHandler))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if os.Getenv("AWS_LAMBDA_RUNTIME_API") != "" {
		lambda.Start(func(policy string) (asked, error) {
			a := e.ask(client, policy)
			return asked{a.status, a.degraded, a.took}, nil
		})
	}
	fmt.Println("there")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	e.ask(client, policies[0])
}

// asked is the response of a function.
type asked struct {
	Status   int
	Degraded limiter.Reason
	Took     time.Duration
}

// process is an environment that runs in a separate process.
type process struct {
	command *exec.Cmd
	input   io.Writer
}

// startProcess starts a process and waits until it is ready.
func startProcess(t *testing.T, variables []string) *process {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), path)
	c.Env, c.Stderr = append(os.Environ(), processVariable+"="+strings.Join(variables, " ")), os.Stderr
	input, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(output).ReadString('\n'); err != nil || line != "there\n" {
		t.Fatalf("output of the process: got %q and error %v, want \"there\\n\" and no error", line, err)
	}
	return &process{c, input}
}

// ask signals the process to send its request.
func (p *process) ask(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(p.input, "\n"); err != nil {
		t.Fatal(err)
	}
}

// kill kills the process. The process must still run.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.command.Process.Kill(); err != nil {
		t.Error(err)
	}
	if err := p.command.Wait(); err == nil {
		t.Error("process before the kill: got ended, want running")
	}
}
