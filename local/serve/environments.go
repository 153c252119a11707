package serve

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/gateway/template"
	"github.com/weir-limits/weir/local/lambdaenv"
	"github.com/weir-limits/weir/local/why"
)

// MaxEnvironments is the maximum of Options.Environments: the default of AWS for the concurrency of an account.
const MaxEnvironments = 1000

// pool returns the environments of a function. Each environment runs the bootstrap with the
// variables that a function in this process would have.
func (s *Server) pool(f template.Function, role string) (lambda.Handler, error) {
	bootstrap, err := s.bootstrap(f, role)
	if err != nil {
		return nil, err
	}
	var variables []string
	for name, value := range s.variablesOf(f.Environment) {
		variables = append(variables, name+"="+value)
	}
	p, err := lambdaenv.NewPool(lambdaenv.PoolOptions{
		Bootstrap: bootstrap, Name: f.ID, Variables: variables,
		Max: s.Environments, Idle: s.Idle, Line: s.line, Logger: s.Logger,
	})
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, func() { _ = p.Close() })
	return p, nil
}

// bootstrap returns the path of the program that make functions builds for this machine.
func (s *Server) bootstrap(f template.Function, role string) (string, error) {
	if runtime.GOOS != "linux" {
		return "", errors.New("--environments: bootstraps run only on Linux; use 0 to run functions in this process")
	}
	path := s.bootstrapPath(f, role)
	if !checkout.Exists(path) {
		return "", fmt.Errorf("%s: not found; build it with make functions ARCH=%s", path, checkout.HostArch())
	}
	return path, nil
}

func (s *Server) bootstrapPath(f template.Function, role string) string {
	variables := s.variablesOf(f.Environment)
	bundle := contract.Bundle(role, variables[contract.VariableStore] == contract.StoreRedis, variables[contract.VariableEvents] != "")
	return s.checkout.Path("dist", checkout.HostArch(), bundle, "bootstrap")
}

// maxMetrics is the size in bytes above which a new run removes the metrics file.
const maxMetrics = 64 << 20

// openMetrics opens the metrics file, which replaces CloudWatch. Other runs of this checkout can
// write to it at the same time.
func (s *Server) openMetrics() error {
	path := s.checkout.MetricsFile()
	if err := os.MkdirAll(s.checkout.Path(".weir"), 0o700); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && info.Size() > maxMetrics {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	var out io.Writer = file
	if s.Edge > 0 {
		out = edgeLines{file, s}
	}
	s.record = why.NewRecord(out)
	s.closers = append(s.closers, func() { _ = file.Close() })
	return nil
}

// line handles one line from an environment: a JSON line is a metric and goes to the metrics file,
// any other line goes to the log.
func (s *Server) line(environment string, line []byte) {
	out := s.Log
	if len(line) > 0 && line[0] == '{' {
		out = s.record
	}
	_, _ = out.Write(fmt.Appendf(nil, "%s  %s\n", environment, line)) // a single Write keeps lines of different environments apart
}
