package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/local/simulate"
)

var small = []string{"simulate", "--rate", "2000", "--callers", "100", "--all", "1000", "--all-lease", "10", "--only", "^each caller: (sliding|fixed)_window$"}

func TestSimulate(t *testing.T) {
	code, out, errs := weir(t, small...)
	if code != 0 || !strings.Contains(out, "2,000 requests a second by 100 callers") || !strings.Contains(out, "\n| each caller: fixed_window   |") {
		t.Fatalf("got exit %d: %s%s, want exit 0 and the table", code, out, errs)
	}
	code, out, errs = weir(t, append(small, "--environments", "20,30")...)
	if code != 0 || strings.Count(out, "\n| each caller: fixed_window   |           20 |") != 1 || strings.Count(out, "\n| each caller: fixed_window   |           30 |") != 1 {
		t.Errorf("two numbers of environments: got exit %d: %s%s, want exit 0 and a row for 20 and for 30", code, out, errs)
	}
	code, out, errs = weir(t, append(small, "--store", "elasticache", "--p99", "5ms", "--quick", "--json")...)
	var got simulated
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
		t.Fatalf("--json: got exit %d, error %v: %s%s, want exit 0 and JSON", code, err, out, errs)
	}
	want := simulate.Default(simulate.ElastiCache)
	want.Rate, want.Callers, want.P99, want.Sample, want.Distance = 2000, 100, 5e6, 10, 0
	if got.Parameters != want || got.Limits.All != 1000 || got.Limits.Each != 20 || len(got.Results) != 2 || got.Results[0].Requests == 0 {
		t.Errorf("got %+v, want the parameters %+v", got, want)
	}
	if n := float64(got.Results[0].Requests); n < 400 || n > 800 {
		t.Errorf("--quick: got %.0f requests, want about a tenth of 6,000", n)
	}
	if code, out, errs := weir(t, append(small, "--quick")...); code != 0 || !strings.Contains(out, "2,000 requests a second by 100 callers") || !strings.Contains(out, "Of 10 requests, one was simulated") {
		t.Errorf("--quick: got exit %d: %s%s, want exit 0, the given rate, and what was simulated", code, out, errs)
	}
	if code, _, errs := weir(t, append(small, "--quick", "--callers", "9")...); code != 2 || !strings.Contains(errs, "callers: got 9, want 10 to") {
		t.Errorf("--quick of 9 callers: got exit %d: %s, want exit 2", code, errs)
	}
}

func TestSimulate_mistakes(t *testing.T) {
	for flag, want := range map[string]string{
		"--store=redis":     `store: got "redis", want dynamodb or elasticache`,
		"--only=(":          "--only: error parsing regexp",
		"--only=nothing":    `names: got "nothing", want part of a name such as "each caller: sliding_window"`,
		"--each=0":          "each caller: sliding_window: requests: got 0",
		"--time=1500ms":     "measured time: got 1.5s, want a multiple of the window",
		"--edge=10s":        "--edge: requires --rules",
		"--environments=-1": "environments: got -1, want 1 to 100000",
	} {
		if code, _, errs := weir(t, append(small, flag)...); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: got exit %d, stderr %s, want %s", flag, code, errs, want)
		}
	}
	if code, _, errs := weir(t, append(small, "--shards=1")...); code != 0 {
		t.Errorf("invalid limit outside the simulation: got exit %d, stderr %s, want exit 0", code, errs)
	}
	if code, _, errs := weir(t, append(small, "--shards=1", "--only=shards")...); code != 2 || !strings.Contains(errs, "shards: got 1, want 2 to 64 here") {
		t.Errorf("invalid shards: got exit %d, stderr %s, want exit 2 and the range of shards", code, errs)
	}
	if code, out, errs := weir(t, append(small, "--each=1", "--only=^each")...); code != 0 || !strings.Contains(out, "sync 100ms") || strings.Contains(out, "shards") {
		t.Errorf("one request per caller: got exit %d, stderr %s, output %s, want exit 0 with sync and without shards", code, errs, out)
	}
}

// With --rules, the rows are the rules of the document. The table has the four columns that --columns replaces.
func TestSimulate_rules(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.json")
	write := func(document string) {
		if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"rules":[{"endpoint":"/a","limits":{"paid":{"requests":5,"window":"1s"},"global":{"name":"all","requests":9000,"window":"1h"}}},{"endpoint":"/b","limits":{"*":{"requests":5,"window":"2s"}}},{"endpoint":"/d","limits":{"*":{"requests":20,"window":"1s","count":"cost","reserve":4}}}]}`)
	flags := []string{"simulate", "--rules", file, "--rate", "200", "--callers", "20"}
	for _, c := range []struct {
		more string
		want []string
	}{
		{"--only paid", []string{"\n| limit      | admitted % | wrong % | $ a month |\n", "\n| /a, paid * |", "for 1m0s after a warm-up of 1m0s", "Each row is a rule of " + file, "*: a window is longer"}},
		{"--only /b --time 4s", []string{"\n| limit | admitted % | wrong % | $ a month |\n", "\n| /b, * |", "for 4s after a warm-up of 2s"}},
		{"--only /b --store elasticache --environments 20,30", []string{"## ElastiCache", "\n| limit | environments | admitted % | wrong % | $ a month |\n"}},
		{"--only /b --columns calls,limit", []string{"\n| calls | limit |\n"}},
		{"--only /b --columns all", []string{"\n| limit | environments | admitted % | wrong % | above % | worst window % | below % | degraded % | turned away % | calls | writes | hottest/s | p99 ms |  $/M | $ a month |\n"}},
		{"--only /d --columns settling", []string{"\n| settling |\n", "Settling: "}},
		{"--only /b --json", []string{`"rules": "` + file, `"name": "/b, *"`, `"dollarsPerMonth": `}},
	} {
		code, out, errs := weir(t, append(slices.Clone(flags), strings.Fields(c.more)...)...)
		for _, want := range c.want {
			if code != 0 || !strings.Contains(out, want) {
				t.Errorf("%s: got exit %d: %s%s, want %s", c.more, code, out, errs, want)
			}
		}
	}
	mistake := func(more string, status int, want string) {
		if code, out, errs := weir(t, append(slices.Clone(flags), strings.Fields(more)...)...); code != status || out != "" || !strings.Contains(errs, want) || strings.Count(strings.SplitN(errs, "\n\n", 2)[0], "weir: ") != 1 {
			t.Errorf("%s: got exit %d: %s%s, want exit %d and %s", more, code, out, errs, status, want)
		}
	}
	mistake("--each 5", 2, "--each: has no effect with --rules")
	mistake("--only /c", 2, `names: got "/c", want part of a name such as "/a`)
	mistake("--only /d --duration=0", 2, "/d, *: duration: got 0s and 400ms, want a median of at least 1ms")
	mistake("--only /d --cost=5 --cost-p99=4", 2, "/d, *: cost: got 5 and 4, want a median of at least 1")
	mistake("--only /d --failures=2", 2, "/d, *: failures: got 2, want 0 to 1")
	mistake("--columns price", 2, `--columns: got "price", want all, or some of: limit`)
	mistake("--edge 10s", 2, "--edge: "+file+" has no limit for which a distribution can refuse requests")
	mistake("--rules none.json", 1, "--rules: open none.json")
	write(`{"rules":[{"endpoint":"*","limits":{"global":{"name":"flood","requests":60,"window":"1m","algorithm":"sliding_log","per":["ip"]}}}]}`)
	if code, out, errs := weir(t, append(slices.Clone(flags), "--edge", "10s", "--quick")...); code != 0 || !strings.Contains(out, " | admitted % | wrong % | at the edge % | $ a month |\n") {
		t.Errorf("--edge: got exit %d: %s%s, want the column of refusals at the edge", code, out, errs)
	}
	write(`{"rules":[{"endpoint":"/a","limits":{"*":{"requests":0,"window":"1s"}}}]}`)
	mistake("", 1, "--rules: "+file+": line 1: rules[0].limits.*.requests: got 0")
	write(`{"rules":[{"endpoint":"/a","limits":{"*":{"requests":5,"window":"1s","algorithm":"leaky_bucket"}}}]}`)
	mistake("", 2, "a leaky_bucket cannot be simulated")
}

// With --regions, the table compares regions with one store: for the limits of the command, or for those of a document.
func TestSimulate_regions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.json")
	document := `{"rules":[{"endpoint":"/a","limits":{"*":{"requests":30,"window":"2s","regions":"shared"}}},{"endpoint":"/b","limits":{"*":{"requests":30,"window":"2s"}}}]}`
	if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		more string
		want []string
	}{
		{"--only ^5.*fixed", []string{"## DynamoDB in 3 regions, 80ms apart\n", "admitted % | of one store % | above % | calls between regions |\n", "\n| 5 a minute, fixed_window, 90 %: one region |"}},
		{"--only ^5.*fixed --json", []string{`"regions": 3,`, `"distanceNs": 80000000,`, `"rate": 0,`, `"regionCalls": `}},
		{"--rules " + file + " --rate 100 --callers 10 --distance 20ms", []string{"in 3 regions, 20ms apart\n", "\n| /a, *: one region", "\n| /a, *: even", "100 requests a second by 10 callers"}},
	} {
		code, out, errs := weir(t, append([]string{"simulate", "--regions", "3"}, strings.Fields(c.more)...)...)
		for _, want := range c.want {
			if code != 0 || !strings.Contains(out, want) || strings.Contains(out, "/b") {
				t.Errorf("%s: got exit %d: %s%s, want %s, and no row of /b", c.more, code, out, errs, want)
			}
		}
	}
	for flags, want := range map[string]string{
		"--regions 1":                           "regions: got 1, want 2 to 10",
		"--regions 3 --rate 5":                  "--rate: has no effect with --regions, whose rows have their own values; give --rules",
		"--regions 3 --store elasticache":       "regions: got the store elasticache, want dynamodb",
		"--distance 20ms":                       "--distance: has no effect without --regions",
		"--regions 3 --only /b --rules " + file: `names: got "/b", want part of a name such as "/a, *: one region"`,
	} {
		if code, out, errs := weir(t, append([]string{"simulate"}, strings.Fields(flags)...)...); code != 2 || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: got exit %d: %s%s, want exit 2 and %s", flags, code, out, errs, want)
		}
	}
}

// A pipe gets no progress: in a log, each line would stay.
func TestReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		stop := report(&out, new(atomic.Int64), []simulate.Scenario{{Parameters: simulate.Parameters{Rate: 1, Measured: time.Minute}}}, time.Now())
		time.Sleep(time.Minute)
		if stop(); out.Len() > 0 {
			t.Errorf("got %q, want nothing", out.String())
		}
	})
}

func TestEstimate(t *testing.T) {
	for part, want := range map[float64]string{
		0:    "0 % of 8.0 million requests, unknown time left",
		0.25: "25 % of 8.0 million requests, 30s left",
		1.01: "100 % of 8.0 million requests, 0s left",
	} {
		if got := estimate(part, 10*time.Second, 8e6); got != want {
			t.Errorf("part %g: got %q, want %q", part, got, want)
		}
	}
}
