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
)

// If processVariable is set, the test program runs as an environment. The environment prints a line when it
// is ready. For each line that it reads, it sends one request and prints the answer.
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
	fmt.Println("there")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		a := e.ask(client, policies[0])
		fmt.Println(a.status, a.degraded)
	}
}

// process is an environment that runs in a separate process.
type process struct {
	command *exec.Cmd
	input   io.Writer
	output  *bufio.Reader
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
	lines := bufio.NewReader(output)
	if line, err := lines.ReadString('\n'); err != nil || line != "there\n" {
		t.Fatalf("output of the process: got %q and error %v, want \"there\\n\" and no error", line, err)
	}
	return &process{c, input, lines}
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
