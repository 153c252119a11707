package boot_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/storetest"
)

// A function with the layer has variables with a prefix, and each error names the variable that is set there.
func TestLayer(t *testing.T) {
	logger := slog.New(slog.DiscardHandler)
	for _, c := range []struct {
		name      string
		variables map[string]string
		want      []string // parts of the error; none means no error
	}{
		{"valid", map[string]string{"WEIR_STORE": "memory:", "WEIR_NAMESPACE": "dev", "WEIR_RULES_VERSION": "1"}, nil},
		{"streamed answers", map[string]string{"WEIR_STORE": "memory:", "WEIR_NAMESPACE": "dev", "WEIR_RULES_VERSION": "1",
			"WEIR_RESPONSE_STREAM": "true"}, nil},
		{"the function's own variables", map[string]string{"WEIR_STORE": "memory:", "WEIR_NAMESPACE": "dev", "WEIR_RULES_VERSION": "1",
			"STORE": "sqlite", "NAMESPACE": "#"}, nil},
		{"missing", map[string]string{"NAMESPACE": "dev"}, []string{"WEIR_NAMESPACE: required"}},
		{"invalid", map[string]string{"WEIR_NAMESPACE": "dev", "WEIR_RULES_FROM": "table", "WEIR_IPV6_BITS": "0"},
			[]string{`WEIR_STORE: got "", want a URL`, "WEIR_RECORDS_TABLE: required with WEIR_RULES_FROM=table", "WEIR_IPV6_BITS: got 0"}},
		{"no boolean", map[string]string{"WEIR_RESPONSE_STREAM": "on"}, []string{`WEIR_RESPONSE_STREAM: got "on", want true or false`}},
		{"removed", map[string]string{"WEIR_STORE": "memory:", "WEIR_NAMESPACE": "dev", "WEIR_EVENTS": "kinesis"},
			[]string{"WEIR_EVENTS: no longer a setting"}},
		{"SnapStart", map[string]string{"WEIR_STORE": "memory:", "WEIR_NAMESPACE": "dev", "WEIR_RULES_VERSION": "1",
			"AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start"},
			[]string{"SnapStart: the layer does not support it"}},
		{"another init", map[string]string{"WEIR_STORE": "memory:", "WEIR_NAMESPACE": "dev", "WEIR_RULES_VERSION": "1",
			"AWS_LAMBDA_INITIALIZATION_TYPE": "provisioned-concurrency"}, nil},
	} {
		lookup := func(name string) (string, bool) { value, ok := c.variables[name]; return value, ok }
		e, err := boot.Layer(lookup)(t.Context(), logger)
		if len(c.want) == 0 && err != nil {
			t.Errorf("%s: got error %v, want none", c.name, err)
		} else if err == nil && e.ResponseStream != (c.variables["WEIR_RESPONSE_STREAM"] == "true") {
			t.Errorf("%s: got streamed answers: %t, want the value of the variable", c.name, e.ResponseStream)
		}
		for _, want := range c.want {
			if err == nil || !strings.Contains("\n"+err.Error(), "\n"+want) {
				t.Errorf("%s: got error %v, want a line with %q", c.name, err, want)
			}
		}
	}
}

// The variables in LAYER.md start the layer from the files of a release, without a store and without AWS.
func TestLayer_document(t *testing.T) {
	document := storetest.Must(os.ReadFile("../LAYER.md"))
	root := filepath.Dir(write(t, contract.LayerRules, oneRule))
	variables := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^ {10}([A-Z_]+): (.+)$`).FindAllStringSubmatch(string(document), -1) {
		variables[m[1]] = strings.Trim(m[2], `"`)
	}
	if got, want := variables[contract.VariableWrapper], contract.LayerRoot+contract.LayerWrapper; got != want {
		t.Errorf("%s: got %q, want %q", contract.VariableWrapper, got, want)
	}
	lookup := func(name string) (string, bool) {
		value, ok := variables[name]
		if file, inLayer := strings.CutPrefix(value, contract.LayerRoot); inLayer {
			value = filepath.Join(root, file)
		}
		return value, ok
	}
	e, err := boot.Layer(lookup)(t.Context(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("variables %v: got error %v, want none", variables, err)
	}
	if got := e.Rules.Current().Version(); got != 1 {
		t.Errorf("rules: got version %d, want 1", got)
	}
	for _, architecture := range []string{"arm64", "x86_64"} {
		if zip := contract.Archive(contract.Extension, architecture); !strings.Contains(string(document), "`"+zip+"`") &&
			!strings.Contains(string(document), "unzip "+zip) {
			t.Errorf("LAYER.md: got no %s, want the file of a release", zip)
		}
	}
}

// An environment logs once when it starts that its log level drops all metrics. The line has a level that Lambda does not drop.
func TestLogLevel(t *testing.T) {
	type lookup = func(string) (string, bool)
	for name, start := range map[string]func(lookup, *slog.Logger) error{
		"layer": func(f lookup, l *slog.Logger) error {
			_, err := boot.Layer(f)(t.Context(), l)
			return err
		},
		"log": func(f lookup, l *slog.Logger) error {
			_, _, err := boot.OpenLog(t.Context(), f, l)
			return err
		},
	} {
		for level, want := range map[string]int{"": 0, "DEBUG": 0, "INFO": 0, "WARN": 1, "ERROR": 1, "FATAL": 1, "warn": 1} {
			var log bytes.Buffer
			variables := map[string]string{"STORE": "memory:", "NAMESPACE": "dev", "RULES_VERSION": "1"}
			read := func(variable string) (string, bool) {
				if variable == "AWS_LAMBDA_LOG_LEVEL" {
					return level, true
				}
				value, ok := variables[strings.TrimPrefix(variable, "WEIR_")]
				return value, ok
			}
			if err := start(read, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))); err != nil {
				t.Fatal(err)
			}
			if got := strings.Count(log.String(), "metrics"); got != want {
				t.Errorf("%s, level %q: got the log %s, want %d lines about metrics", name, level, log.String(), want)
			}
		}
	}
}
