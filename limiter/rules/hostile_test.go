package rules_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/rules"
)

func numbered(requests string) string {
	return `{"rules":[{"endpoint":"*","limits":{"*":{"requests":` + requests + `,"window":"1m"}}}]}`
}

// Parse rejects a number that is not whole or is out of range, in every spelling of JSON.
func TestParse_numbers(t *testing.T) {
	const noNumber, notJSON = "want a whole number from 1 to 1000000000", "line 1, column 5"
	digits := strings.Repeat("9", 100_000)
	for number, want := range map[string]string{
		"1000000000": "", "1e9": "", "10.0e8": "", "0.1e10": "", "1000000000.0000": "",
		"1000000001": noNumber, "1e10": noNumber, "9223372036854775807": noNumber, "9223372036854775808": noNumber,
		"-9223372036854775809": noNumber, "18446744073709551617": noNumber,
		"1e400": noNumber, "1e999999999999999999999": noNumber, "1e9223372036854775807": noNumber, "1e-9223372036854775808": noNumber,
		"10e-9223372036854775808": noNumber, "1e-400": noNumber, "0e999": noNumber, "0": noNumber, "-0": noNumber, "-1": noNumber,
		"0.5": noNumber, "1.0000001": noNumber, "0.99999999999999999999": noNumber, "1.00000000000000000001": noNumber,
		"4.0000000000000001": noNumber,
		digits:               noNumber, "1e" + digits: noNumber, "0." + digits + "e100000": noNumber,
		`"NaN"`: noNumber, `"Infinity"`: noNumber, `"1"`: noNumber, `"0x10"`: noNumber, `"1e2"`: noNumber, "null": noNumber, "true": noNumber,
		"[1]": noNumber, "{}": noNumber,
		"NaN": notJSON, "Infinity": notJSON, "-Infinity": notJSON, "0x10": notJSON, "1_000": notJSON, "+1": notJSON, "01": notJSON, ".5": notJSON,
		"1.": notJSON, "1e": notJSON, "١": notJSON,
	} {
		_, err := rules.Parse([]byte(numbered(number)), rules.Options{Version: 1})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: got error %v, want %q", number, err, want)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("%.40s: got an error of %d bytes, want at most 300", number, len(err.Error()))
		}
	}
}

// A number can have any spelling of JSON. The field window_seconds is the window as a number.
func TestParse_windowSeconds(t *testing.T) {
	charges := load(t, "testdata/good/numbers.json").Charges(nil, "GET", rules.EncodedPath("/a"), alice)
	if got, want := numbers(charges), "minute sliding/1m0s/100, tiny sliding/1s/100"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// attack is a document and what Parse reports about it.
type attack struct{ name, document, problem string }

// anyAnswer marks a hostile document that Parse may accept or reject.
const anyAnswer = "?"

// hostile lists documents that attack a parser. Parse rejects each, unless problem is anyAnswer.
func hostile() []attack {
	return []attack{
		{"10 MB of rules", `{"rules":[` + strings.Repeat(rule("/a", "", `"*":`+limit)+",", 170_000) + `]}`, "want at most 1048576"},
		{"10 MB of a number", numbered(strings.Repeat("9", 10<<20)), "want at most 1048576"},
		{"10,000 rules", document(fill(10_000, func(i int) string { return fmt.Sprintf(`{"endpoint":"/a%d","limits":{"*":%s}}`, i, limit) })),
			"rules: got 10000 rules, want a list of 0 to 1000 rules"},
		{"10,001 overrides", `{"rules":[` + rule("*", "", `"*":`+limit) + `],"overrides":[` + fill(10_001, func(i int) string {
			return fmt.Sprintf(`{"user":"u%d","limits":{"all":%s}}`, i, limit)
		}) + `]}`, "overrides: got 10001 overrides, want a list of 0 to 10000 overrides"},
		{"deep lists", strings.Repeat("[", 500_000) + strings.Repeat("]", 500_000), "exceeded max depth"},
		{"deep objects", strings.Repeat(`{"rules":`, 100_000), "exceeded max depth"},
		{"deep in a note", numbered(`1,"note":` + strings.Repeat("[", 300_000)), "exceeded max depth"},
		{"one key, many times", `{` + fill(100_000, func(int) string { return `"rules":[]` }) + `}`, "got the same name twice in one object"},
		{"one limit, many times", document(rule("*", "", fill(50_000, func(int) string { return `"*":` + limit }))),
			"got the same name twice in one object"},
		{"one override, many times", `{"rules":[` + rule("*", "", `"*":`+limit) + `],"overrides":[` +
			fill(10_000, func(int) string { return `{"user":"u","limits":{"all":` + limit + `}}` }) + `]}`, "got two overrides of all for user"},
		{"unknown fields", `{"rules":[],` + fill(80_000, func(i int) string { return fmt.Sprintf(`"f%d":1`, i) }) + `}`,
			"more than 100 problems"},
		{"many parameters", document(rule(strings.Repeat("/{p}", 33), "", `"*":`+limit)), "got 33 segments, want at most 32"},
		{"a long path", document(rule("/"+strings.Repeat("a", 1024), "", `"*":`+limit)), "got 1025 bytes, want at most 1024"},
		{"long names", document(rule("*", "", `"`+strings.Repeat("t", 1_000_000)+`":`+limit)), "invalid tier"},
		{"mistakes in all rules", document(fill(1000, func(i int) string {
			return fmt.Sprintf(`{"endpoint":"%d","method":"x","cost":-1,"mode":1,"limits":{"?":{"requests":-1,"window":"%d","per":["x"],`+
				`"burst":1e99}}}`, i, i)
		})), "more than 100 problems"},
		{"invalid UTF-8", strings.Replace(numbered("1"), "*", "/\xff\xfe", 1), anyAnswer},
		{"NUL", strings.Replace(numbered("1"), "}", "}\x00", 1), "line 1, column "},
	}
}

// A version more than a day ahead of the clock is a mistake when a document is checked: no later document could have a
// higher version. Functions accept it, because they may hold a document that was published before.
func TestParse_versionAhead(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	for version, ok := range map[int64]bool{1: true, now.Unix() + 86400: true, now.Unix() + 86401: false, 1<<47 - 1: false} {
		text := fmt.Appendf(nil, `{"version":%d,"rules":[]}`, version)
		if _, err := rules.Parse(text, rules.Options{Now: now}); (err == nil) != ok || err != nil && !strings.Contains(err.Error(),
			"version: got") {
			t.Errorf("version %d: got error %v, want none: %t", version, err, ok)
		}
		if _, err := rules.Parse(text, rules.Options{}); err != nil {
			t.Errorf("version %d in a function: got error %v, want none", version, err)
		}
	}
}

// work measures the cost of parsing a document.
type work struct {
	time    time.Duration
	objects uint64
	bytes   uint64 // of all objects
}

func workOf(document string) (work, error) {
	b := []byte(document)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begun := processorTime()
	_, err := rules.Parse(b, rules.Options{Items: dynamostore.Items{}, Version: 1})
	took := processorTime() - begun
	runtime.ReadMemStats(&after)
	return work{took, after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc}, err
}

// processorTime returns the time that this process has computed. Other programs do not change it.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestParse_worst checks that Parse accepts or rejects each hostile document as expected, at a bounded cost. A
// hostile document needs at most five times the objects and thirty times the time of an honest document of maximum
// size. The test measures both in the same run. It then parses the documents that allocate most in processes of their
// own. A function that reloads such a document must survive, so the peak of their memory is below 64 MB.
func TestParse_worst(t *testing.T) {
	honest := document(fill(1000, func(i int) string {
		return rule(fmt.Sprintf("/api/v%d/things/{id}/parts", i), "", tiers(0, 5))
	}))
	baseline, err := workOf(honest)
	if err != nil || len(honest) < 200_000 {
		t.Fatalf("honest document: got %d bytes, %v; want at least 200,000 and no error", len(honest), err)
	}
	all := append(worst(), hostile()...)
	for seed := range uint64(8) {
		all = append(all, hostileText(rand.New(rand.NewPCG(seed, 0))))
	}
	bytes := map[string]uint64{}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			w, err := workOf(c.document)
			bytes[c.document] = w.bytes
			switch {
			case c.problem == anyAnswer:
			case err == nil && c.problem != "":
				t.Errorf("document of %d bytes: got no error, want %q", len(c.document), c.problem)
			case err != nil && (c.problem == "" || !strings.Contains(err.Error(), c.problem)):
				t.Errorf("document of %d bytes: got error %.300s, want %q", len(c.document), err, c.problem)
			}
			if w.objects > 5*baseline.objects || w.time > 30*baseline.time || w.bytes > 4*most {
				t.Errorf("cost: got %s, %d objects and %d MB; want at most 30 times %s, 5 times %d objects, and %d MB", w.time, w.objects,
					w.bytes>>20, baseline.time, baseline.objects, 4*most>>20)
			}
		})
	}
	slices.SortFunc(all, func(a, b attack) int { return cmp.Compare(bytes[b.document], bytes[a.document]) })
	for _, c := range all[:3] {
		got := peak(t, c.document)
		for range 2 { // on a busy machine, a collection of garbage can begin late
			got = min(got, peak(t, c.document))
		}
		t.Logf("%s: %d MB allocated, peak %d MB", c.name, bytes[c.document]>>20, got>>20)
		if got > most {
			t.Errorf("%s: got a peak of %d MB, want at most %d", c.name, got>>20, most>>20)
		}
	}
}
