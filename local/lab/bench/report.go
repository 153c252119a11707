package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// report is the outcome of a run.
type report struct {
	Machine  machineInfo       `json:"machine"`
	Rounds   int               `json:"rounds"`
	Quick    bool              `json:"quick,omitempty"`
	Versions map[string]string `json:"versions"`
	Groups   []group           `json:"groups"`
}

type machineInfo struct {
	Date  string `json:"date"`
	CPU   string `json:"cpu"`
	Cores int    `json:"cores"`
	OS    string `json:"os"`
	Go    string `json:"go"`
}

func machine(ctx context.Context) machineInfo {
	return machineInfo{
		Date:  time.Now().UTC().Format(time.DateOnly),
		CPU:   cpu(ctx),
		Cores: runtime.GOMAXPROCS(0),
		OS:    runtime.GOOS + "/" + runtime.GOARCH,
		Go:    runtime.Version(),
	}
}

// cpu returns the model of the processor, if the system reports it.
func cpu(ctx context.Context) string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	if brand, err := exec.CommandContext(ctx, "sysctl", "-n", "machdep.cpu.brand_string").Output(); err == nil {
		return strings.TrimSpace(string(brand))
	}
	return "unknown processor"
}

// peers are the measured modules and the modules that the measurement uses.
var peers = []string{
	"golang.org/x/time", "github.com/throttled/throttled/v2", "github.com/sethvargo/go-limiter", "github.com/ulule/limiter/v3",
	"github.com/go-redis/redis_rate/v10", "github.com/redis/go-redis/v9", "github.com/aws/aws-sdk-go-v2/service/dynamodb",
}

func addModules(versions map[string]string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return
	}
	for _, m := range info.Deps {
		if slices.Contains(peers, m.Path) {
			versions[m.Path] = m.Version
		}
	}
}

func (r report) json(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// markdown returns the report in the form of the documentation.
func (r report) markdown() string {
	var b strings.Builder
	b.WriteString("# Benchmarks\n\nFor maintainers; the figures for users are in [STORES](../../limiter/STORES.md#figures). Written by `make bench-docs`; `make bench BENCH=-json` has more rows and columns. ")
	fmt.Fprintf(&b, "%s, %d cores, %s, %s, %s; medians of %d interleaved rounds in one run.\n",
		r.Machine.CPU, r.Machine.Cores, r.Machine.OS, r.Machine.Go, r.Machine.Date, r.Rounds)
	if r.Quick {
		b.WriteString("\n**A quick run: the times mean little.**\n")
	}
	var versions []string
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		versions = append(versions, name+" "+r.Versions[name])
	}
	fmt.Fprintf(&b, "\n%s.\n", strings.Join(versions, ", "))
	for _, g := range r.Groups {
		for _, t := range g.Tables {
			b.WriteString("\n" + t.markdown())
		}
	}
	return b.String()
}
