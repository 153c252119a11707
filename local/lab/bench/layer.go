package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limits/weir/events"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/local/lambdaenv"
)

// layered is a function, with or without the layer.
type layered struct {
	name     string
	event    string // file in package events; "" means an event that is no HTTP request
	store    string // "" means no layer
	requests int    // of the limit
	body     int    // bytes of the body of each event and each answer
}

var layerColumns = []column{{"init, ms", 1}, {"invocation, us", 0}, {"added, us", 0}, {"MB of memory", 1}}

// layerGroup measures what the layer adds to a function that does nothing. The group has no table if the
// programs are not built, or outside Linux.
func layerGroup(ctx context.Context, b *bench) (group, error) {
	const enough = 1_000_000_000
	layers := []layered{
		{"the function alone", "http-api-anonymous.json", "", 0, 0},
		{"with the layer, not HTTP", "", "memory", enough, 0},
		{"with the layer, in memory", "http-api-anonymous.json", "memory", enough, 0},
		{"with the layer, in DynamoDB", "http-api-anonymous.json", "dynamodb", enough, 0},
		{"with the layer, refused", "http-api-anonymous.json", "memory", 1, 0},
		{"with the layer, bodies of 5.9 MB", "http-api-anonymous.json", "memory", enough, 5_900_000}, // an event and an answer have at most 6 MB
	}
	program, err := os.Executable()
	if err != nil {
		return group{}, err
	}
	arch := map[string]string{"amd64": "x86_64", "arm64": "arm64"}[runtime.GOARCH]
	extension, err := filepath.Abs(filepath.Join("dist", arch, contract.Extension, "bootstrap"))
	if err != nil {
		return group{}, err
	}
	function := filepath.Join(filepath.Dir(program), "trivial")
	for _, path := range []string{extension, function} {
		if _, err := os.Stat(path); err != nil || runtime.GOOS != "linux" {
			b.say("SKIPPED: the layer needs Linux and %s; `make bench` builds it", path)
			return group{Name: "Layer"}, nil
		}
	}
	dynamodb := httptest.NewServer(http.HandlerFunc(answerAll))
	defer dynamodb.Close()
	invocations := 500
	if b.quick {
		invocations = 20
	}
	var contenders []contender
	var alone figure // median of an invocation of the function alone, in the same round
	for _, l := range layers {
		contenders = append(contenders, contender{l.name, func() ([]figure, error) {
			cost, err := l.measure(ctx, extension, function, dynamodb.URL, invocations)
			if l.store == "" {
				alone = cost.invocation
			}
			return []figure{cost.init, cost.invocation, cost.invocation - alone, cost.memory}, err
		}})
	}
	rows, err := b.interleave(ctx, contenders)
	return group{Name: "Layer", Tables: []table{{
		Title: "Layer: what it adds to a function that does nothing", Corner: "function", Columns: layerColumns, Rows: rows,
		Omitted: []string{"invocation, us", "with the layer, not HTTP"},
		Note:    "The function is a Go program. An invocation lasts from the event to the request for the next one, with the settlement; each figure is a median. The memory is the largest resident memory of the extension. In the last row, events and answers have bodies of 5.9 MB, and the limit counts bytes. A server on this machine replaces DynamoDB.",
	}}}, err
}

// layerCost is what a function costs: the init in milliseconds, an invocation in microseconds, and the memory of
// the extension in MB.
type layerCost struct{ init, invocation, memory figure }

// measure starts an environment and invokes the function.
func (l layered) measure(ctx context.Context, extension, function, endpoint string, invocations int) (cost layerCost, err error) {
	event := []byte(`{"Records":[{"eventSource":"aws:sqs","body":"{}"}]}`)
	if l.event != "" {
		event = must(events.Files.ReadFile(l.event))
	}
	output := new(bytes.Buffer)
	o := lambdaenv.Options{Bootstrap: function, Name: "bench", Output: output}
	if l.body > 0 {
		event = bytes.Replace(event, []byte(`"isBase64Encoded"`), []byte(`"body":"`+strings.Repeat("x", l.body)+`","isBase64Encoded"`), 1)
		o.Variables = []string{"BODY=" + strconv.Itoa(l.body)}
		invocations = max(invocations/10, 20)
	}
	if l.store != "" {
		folder, err := os.MkdirTemp("", "layer")
		if err != nil {
			return cost, err
		}
		defer func() { _ = os.RemoveAll(folder) }()
		if o, err = l.options(o, folder, extension, endpoint); err != nil {
			return cost, err
		}
	}
	e, err := lambdaenv.Start(ctx, o)
	if err != nil {
		return cost, fmt.Errorf("%w\n%s", err, output)
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	var times []figure
	for range invocations {
		begun := time.Now()
		if _, err := e.Invoke(ctx, event); err != nil {
			return cost, fmt.Errorf("%w\n%s", err, output)
		}
		times = append(times, figure(time.Since(begun).Microseconds()))
	}
	return layerCost{figure(e.Init.Seconds() * 1000), median(times), memoryOf(extension)}, nil
}

// options returns o with the layer. folder gets the files of the layer.
func (l layered) options(o lambdaenv.Options, folder, extension, endpoint string) (lambdaenv.Options, error) {
	wrapper, document := filepath.Join(folder, contract.LayerWrapper), filepath.Join(folder, contract.LayerRules)
	count := ""
	if l.body > 0 {
		count = `"count":"bytes","reserve":1,`
	}
	rules := fmt.Sprintf(`{"rules":[{"endpoint":"*","limits":{"global":{"name":"address","requests":%d,%s"window":"1h","per":["ip"]}}}]}`, l.requests, count)
	if err := errors.Join(os.WriteFile(wrapper, []byte(contract.LayerScript()), 0o700), os.WriteFile(document, []byte(rules), 0o600)); err != nil {
		return o, err
	}
	o.Extensions = []string{extension}
	o.Arguments, o.Bootstrap = []string{o.Bootstrap}, wrapper
	o.Variables = append(o.Variables, contract.VariableWrapper+"="+wrapper)
	for name, value := range map[string]string{
		contract.VariableStore: l.store, contract.VariableNamespace: "bench", contract.VariableTable: "bench", contract.VariableRulesVersion: "1",
		contract.VariableRulesFile: document, "DYNAMODB_ENDPOINT": endpoint, contract.VariableLocal: "true",
	} {
		o.Variables = append(o.Variables, contract.LayerVariable(name)+"="+value)
	}
	return o, nil
}

// memoryOf returns the largest resident memory of the process of a program, in MB. It returns 0 if there is none. The path
// of the program is absolute.
func memoryOf(program string) figure {
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		if path, err := os.Readlink(filepath.Join(process, "exe")); err != nil || path != program {
			continue
		}
		status, _ := os.ReadFile(filepath.Join(process, "status")) // a process that has ended has none
		for line := range strings.Lines(string(status)) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmHWM:" {
				kB, _ := strconv.ParseFloat(fields[1], 64)
				return figure(kB / 1000)
			}
		}
	}
	return 0
}
