package stack_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/infra/stack"
	"github.com/weir-limits/weir/limiter/storetest"
)

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// between returns the text after the first occurrence of begin, up to the next occurrence of end.
func between(t *testing.T, text, begin, end string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, begin)
	part, _, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("got no text between %q and %q", begin, end)
	}
	return part
}

// Each line of Go in the documents is also in a program that compiles.
func TestDocuments_lines(t *testing.T) {
	programs := read(t, "../ratelimit/example_test.go") + read(t, "../../functions/handler/main.go") +
		read(t, "../../limiter/httpclient/example_test.go") +
		read(t, "../../limiter/httplimit/testdata/programs/memory.go")
	blocks := 0
	for _, page := range []string{"../../README.md", "../ATTACH.md"} {
		for _, block := range strings.Split(read(t, page), "```go\n")[1:] {
			blocks++
			lines, _, _ := strings.Cut(block, "```")
			if !strings.Contains(programs, strings.TrimRight(lines, " ")) {
				t.Errorf("%s: got lines that no program contains, want a program with\n%s", page, lines)
			}
		}
	}
	if blocks < 3 {
		t.Errorf("blocks of Go: got %d, want at least 3", blocks)
	}
}

// README.md invokes the authorizer by its logical ID.
func TestREADME_invoke(t *testing.T) {
	id, _ := templateOf(t).one(t, "AWS::Lambda::Function", "LimitsAuthorizer")
	if command := "sam local invoke " + id + " "; !strings.Contains(read(t, "../../README.md"), command) {
		t.Errorf("README.md: got no command %q, want it", command)
	}
}

// The documents and the TypeScript example use the version of the CDK CLI that the repository pins.
func TestATTACH_versions(t *testing.T) {
	pinned := between(t, read(t, "../package.json"), `"aws-cdk": "`, `"`)
	for _, page := range []string{"ATTACH.md", "TEMPLATE.md"} {
		named := versioned.FindAllStringSubmatch(read(t, "../"+page), -1)
		if len(named) == 0 {
			t.Errorf("%s: got no version of aws-cdk, want one", page)
		}
		for _, match := range named {
			if match[1] != pinned {
				t.Errorf("%s: got aws-cdk@%s, want %s as in package.json", page, match[1], pinned)
			}
		}
	}
	if got := between(t, read(t, "../examples/typescript/package.json"), `"aws-cdk": "`, `"`); got != pinned {
		t.Errorf("examples/typescript/package.json: got aws-cdk %s, want %s as in infra/package.json", got, pinned)
	}
}

// No example replaces the account's role for API Gateway's logs.
func TestExamples_logRole(t *testing.T) {
	for file, want := range map[string]string{"../examples/typescript/app.ts": "cloudWatchRole: false",
		"../examples/python/app.py": "cloud_watch_role=False", "../../local/starter/infra/stack.go": "CloudWatchRole: jsii.Bool(false)",
		"../ATTACH.md": "CloudWatchRole: jsii.Bool(false)", "../ratelimit/example_test.go": "CloudWatchRole: jsii.Bool(false)"} {
		content := read(t, file)
		if made, kept := len(restAPI.FindAllString(content, -1)), strings.Count(content, want); made == 0 || kept != made {
			t.Errorf("%s: got %d REST APIs and %d of %q, want the same", file, made, kept, want)
		}
	}
}

var restAPI = regexp.MustCompile(`\bNewRestApi\(|\bRestApi\(`)

var versioned = regexp.MustCompile(`aws-cdk@([0-9.]+)`)

// dryRun returns the commands that make would run.
func dryRun(t *testing.T, arguments ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "make", append([]string{"-n", "-C", "../.."}, arguments...)...)
	c.Env = append(os.Environ(), "MAKEFLAGS=") // without MAKEFLAGS, which has the flags of a make that runs the tests
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("make %v: got error %v, output %s, want no error", arguments, err, out)
	}
	return string(out)
}

func TestMake(t *testing.T) {
	for want, arguments := range map[string][]string{
		// A deployment asks for confirmation, unless APPROVAL says otherwise for a pipeline, which has no terminal.
		"cdk deploy --require-approval any-change ": {"deploy"},
		"cdk deploy --require-approval never ":      {"deploy", "APPROVAL=never"},
		"cdk destroy --force":                       {"destroy", "APPROVAL=never"},
		// Only this region goes: not those that depend on it.
		"cdk destroy  --exclusively 'Weir-*-us-east-1' ": {"destroy", "ONLY=us-east-1"},
		// The CDK synthesizes the app before it prepares an account.
		"-o dist/arm64/authorizer/bootstrap": {"-B", "bootstrap"},
	} {
		if out := dryRun(t, arguments...); !strings.Contains(out, want) {
			t.Errorf("make %v: got output %s, want %s", arguments, out, want)
		}
	}
}

// make deploy passes to the CDK what the account answers, and deploys nothing if it refuses to answer.
func TestMake_account(t *testing.T) {
	folder := t.TempDir()
	for name, script := range map[string]string{
		"npx": "echo ran $*",
		"aws": `case $1$FAIL in *no) echo denied >&2; exit 1;; apigateway) echo {};; *) ` +
			`echo '{"Stacks":[{"Outputs":[{"OutputKey":"Regions","OutputValue":"1:eu-west-1,us-east-1"}]}]}';; esac`,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for fail, want := range map[string]string{"": "ran --no-install cdk deploy --require-approval any-change --all -c arch=arm64 " +
		"-c stage=prod -c regions=1:eu-west-1,us-east-1 -c logRole=true -c deployed=1:eu-west-1,us-east-1\n", "no": "denied"} {
		c := exec.CommandContext(t.Context(), "make", "-C", "../..", "-o", "context", "-o", "functions", "-o", ".bin/weir", "-o",
			"infra/node_modules", "deploy", "CONTEXT=stage=prod regions=1:eu-west-1,us-east-1")
		c.Env = append(os.Environ(), "MAKEFLAGS=", "FAIL="+fail, "PATH="+folder+":"+os.Getenv("PATH"))
		out, err := c.CombinedOutput()
		if (err == nil) != (fail == "") || !strings.Contains(string(out), want) || strings.Contains(string(out), "ran ") == (fail != "") {
			t.Errorf("FAIL=%s: got error %v, output %s, want %s", fail, err, out, want)
		}
	}
}

// A setting from make overrides infra/stages.json. make therefore passes the setting rules only if
// RULES is set.
func TestMake_rules(t *testing.T) {
	for want, arguments := range map[string][]string{"": {"synth"}, "mine.json": {"synth", "RULES=mine.json"}} {
		out := dryRun(t, arguments...)
		_, rules, given := strings.Cut(out, "-c rules=")
		if !strings.Contains(out, "cdk synth") || given != (want != "") || !strings.HasPrefix(rules, want) ||
			strings.Contains(rules, "-c rules=") {
			t.Errorf("make %v: got output %s, want cdk synth with the setting rules only if RULES is set", arguments, out)
		}
	}
}

// make checks the settings before it builds the functions, which takes minutes.
func TestMake_context(t *testing.T) {
	for _, target := range []string{"synth", "diff", "deploy", "destroy"} {
		out := dryRun(t, "-B", target, "CONTEXT=stage=prod throttle=100")
		checked, built := strings.Index(out, " arch=arm64 stage=prod throttle=100"), strings.Index(out, "/authorizer/bootstrap")
		if checked < 0 || built < checked {
			t.Errorf("make %s: got output %s, want the check before the first function", target, out)
		}
	}
}

// The build command in ATTACH.md builds the authorizer.
func TestATTACH_build(t *testing.T) {
	line := "GOOS=linux GOARCH=arm64" + between(t, read(t, "../ATTACH.md"), "GOOS=linux GOARCH=arm64", "\n")
	dist := t.TempDir()
	c := exec.CommandContext(t.Context(), "bash", "-c", strings.Replace(line, "-o dist", "-o "+dist, 1))
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build command of ATTACH.md: got error %v, output %s, want no error", err, out)
	}
	if _, err := os.Stat(filepath.Join(dist, "arm64", "authorizer", "bootstrap")); err != nil {
		t.Error(err)
	}
}

var cell = regexp.MustCompile("`([a-zA-Z0-9-]+)`")

// firstCells returns the code spans in a table's first column.
func firstCells(table string) (names []string) {
	for line := range strings.Lines(table) {
		if first, _, ok := strings.Cut(strings.TrimPrefix(line, "|"), "|"); ok && strings.HasPrefix(line, "|") {
			for _, name := range cell.FindAllStringSubmatch(strings.ReplaceAll(first, "(`RULES=`)", ""), -1) {
				names = append(names, name[1])
			}
		}
	}
	slices.Sort(names)
	return names
}

func TestREADME_settings(t *testing.T) {
	_, err := stack.Read([]byte("{}"), map[string]string{"no setting": "x"})
	_, list, _ := strings.Cut(fmt.Sprint(err), "want a setting: ")
	looked := slices.DeleteFunc(strings.Split(list, ", "), func(key string) bool { return key == "bundles" }) // only for tests
	documented := slices.DeleteFunc(firstCells(between(t, read(t, "../README.md"), "## Settings", "\n## ")),
		func(key string) bool { return key == "ARCH" })
	if !slices.Equal(looked, documented) {
		t.Errorf("settings in infra/README.md:\nwant %v\n got %v", looked, documented)
	}
}

func TestREADME_alarms(t *testing.T) {
	rows := map[string]string{}
	for line := range strings.Lines(between(t, read(t, "../README.md")+"\n## ", "## What is watched", "\n## ")) {
		for _, name := range firstCells(line) {
			rows[name] = line
		}
	}
	names := map[string]bool{}
	for _, change := range variants {
		_, alarms := templateOf(t, change).of("AWS::CloudWatch::Alarm")
		for _, a := range alarms {
			name := strings.TrimPrefix(a.Properties["AlarmName"].(string), "weir-dev/")
			names[name] = true
			checkAlarm(t, name, rows[name], a.Properties)
		}
	}
	if want, documented := slices.Sorted(maps.Keys(names)), slices.Sorted(maps.Keys(rows)); !slices.Equal(want, documented) {
		t.Errorf("alarms in infra/README.md:\nwant %v\n got %v", want, documented)
	}
}

var quantity = regexp.MustCompile(`(\d+) (?:%|ms|seconds|invocations|calls|messages)`)

var percentage = regexp.MustCompile(`more than \d+ %`)

// checkAlarm compares the threshold and the minutes of an alarm with its row in the table and with its
// description. The texts of store-slow also name twice the threshold, which is the timeout of a call.
func checkAlarm(t *testing.T, name, row string, properties map[string]any) {
	above, of, in := properties["Threshold"].(float64), properties["DatapointsToAlarm"], properties["EvaluationPeriods"]
	minutes := fmt.Sprintf("in %v of %v minutes", of, in)
	switch {
	case in == 1.0:
		minutes = ""
	case of == in:
		minutes = fmt.Sprintf("for %v minutes", in)
	}
	if !strings.Contains(row, minutes) {
		t.Errorf("%s: got row %q, want %q", name, row, minutes)
	}
	if percentage.MatchString(row) && !strings.Contains(text(t, properties), `\u003e= 10, `) {
		t.Errorf("%s: got %s, want a percentage of at least 10 requests", name, text(t, properties))
	}
	if above > 0 && !slices.ContainsFunc(quantity.FindAllStringSubmatch(row, -1), func(q []string) bool { return q[1] == fmt.Sprint(above) }) {
		t.Errorf("%s: got row %q, want the threshold %v", name, row, above)
	}
	if name == "store-slow" {
		above *= 2
	}
	description := properties["AlarmDescription"].(string)
	for _, q := range quantity.FindAllStringSubmatch(description, -1) {
		if q[1] != fmt.Sprint(above) {
			t.Errorf("%s: got description %q, want %v instead of %s", name, description, above, q[1])
		}
	}
}

// The program in ATTACH.md in Node.js copies the header fields of the decision.
func TestATTACH_backEnd(t *testing.T) {
	const event = `{"requestContext": {"authorizer": {"rateLimit": "\"search\";r=1;t=2", "rateLimitRemaining": "1", "degraded": "", ` +
		`"weir": "allowed"}}}`
	const want = `{"RateLimit":"\"search\";r=1;t=2","X-RateLimit-Remaining":"1"}`
	storetest.Program(t, "node")
	script := between(t, read(t, "../ATTACH.md"), "```js\n", "```") + "\nexports.handler(" + event +
		").then((answer) => console.log(JSON.stringify(answer.headers)));"
	out, err := exec.CommandContext(t.Context(), "node", "-e", script).CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != want {
		t.Errorf("%v: got %s, want %s", err, got, want)
	}
}
