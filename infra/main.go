// Command infra is the CDK app. It synthesizes the stack of one stage. Run it with
// `make synth` or `make deploy`. infra/README.md documents its settings.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/infra/stack"
)

func main() {
	var err error
	switch given := os.Args[1:]; {
	case len(given) == 0:
		err = synthesize(context.Background())
	case given[0] == "account":
		err = printAccount(context.Background(), given[1:])
	default:
		_, err = check(given)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// printAccount prints what make deploy tells the CDK about the account.
func printAccount(ctx context.Context, given []string) error {
	settings, err := check(given)
	if err != nil {
		return err
	}
	found, err := account(ctx, settings, given)
	if err == nil {
		fmt.Println(found)
	}
	return err
}

// check returns settings of the form key=value, and reports mistakes in them. make runs it before it builds the functions, which
// the synthesis needs.
func check(given []string) (stack.Settings, error) {
	settings := map[string]string{}
	for _, each := range given {
		key, value, _ := strings.Cut(each, "=")
		settings[key] = value
	}
	return read(slices.Sorted(maps.Keys(settings)), func(key string) string { return settings[key] })
}

// read returns the settings in the context of the CDK and in stages.json.
func read(given []string, context func(key string) string) (stack.Settings, error) {
	stages, err := os.ReadFile("stages.json")
	if err != nil {
		return stack.Settings{}, fmt.Errorf("stages: %w", err)
	}
	return stack.Read(stages, given, context)
}

// synthesize writes the templates. The CDK and the constructs report mistakes with a panic;
// synthesize returns it as an error.
func synthesize(ctx context.Context) (err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("%v", problem)
		}
	}()
	app := awscdk.NewApp(nil)
	settings, err := read(given(app), func(key string) string {
		if value := app.Node().TryGetContext(jsii.String(key)); value != nil {
			return fmt.Sprint(value)
		}
		return ""
	})
	if err != nil {
		return err
	}
	if settings.Warning != "" {
		fmt.Fprintln(os.Stderr, "warning:", settings.Warning)
	}
	settings.In("..") // the CDK runs this program in infra, the folder of cdk.json; paths are relative to its parent
	settings.RulesVersion = lastChange(ctx, settings.Rules)
	settings.Region = os.Getenv("CDK_DEFAULT_REGION") // the CDK sets it to the region of the deployment
	var first awscdk.Stack
	for _, each := range settings.Each() {
		made := stack.New(app, each)
		if first == nil {
			first = made
		} else { // the records that the first region creates
			made.AddDependency(first, jsii.String("records"))
		}
	}
	app.Synth(nil)
	return nil
}

func given(app awscdk.App) []string {
	context, _ := app.Node().GetAllContext(nil).(map[string]any)
	return slices.Sorted(maps.Keys(context))
}

// lastChange returns when a file last changed, in Unix seconds: at its last commit, or at its
// modification time if it was edited since. It returns 0 if neither is known.
func lastChange(ctx context.Context, path string) int64 {
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", filepath.Dir(path)}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	name := filepath.Base(path)
	if changed, err := git("status", "--porcelain", "--", name); err == nil && changed == "" {
		if committed, err := git("log", "-1", "--format=%ct", "--", name); err == nil {
			seconds, _ := strconv.ParseInt(committed, 10, 64)
			return seconds
		}
	}
	if info, err := os.Stat(path); err == nil {
		return info.ModTime().Unix()
	}
	return 0
}
