// Command infra is the CDK app: it synthesizes the stack of one stage. Run it by
// `make synth` or `make deploy`; what it can be told is in stack/settings.go.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/infra/stack"
)

func main() {
	if err := synthesize(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	jsii.Close()
}

// synthesize writes the templates. What the CDK or a construct finds wrong they panic with.
func synthesize(ctx context.Context) (err error) {
	defer func() {
		if wrong := recover(); wrong != nil {
			err = fmt.Errorf("%v", wrong)
		}
	}()
	app := awscdk.NewApp(nil)
	settings, err := stack.Read(func(key string) string {
		if value := app.Node().TryGetContext(jsii.String(key)); value != nil {
			return fmt.Sprint(value)
		}
		return ""
	})
	if err != nil {
		return err
	}
	settings.In("..") // the CDK runs an app where its cdk.json is
	settings.RulesVersion = lastChange(ctx, settings.Rules)
	stack.New(app, settings)
	app.Synth(nil)
	return nil
}

// lastChange returns when a file was changed last, in Unix seconds: when it was committed
// or, if it was edited since, the file's own time. 0 if that cannot be told.
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
