// Command infra is the CDK app. It synthesizes the stack of one stage. Run it with
// `make synth` or `make deploy`. infra/README.md documents its settings.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"

	"github.com/weir-limits/weir/infra/stack"
)

func main() {
	var err error
	switch given := os.Args[1:]; {
	case len(given) == 0:
		err = synthesize()
	case given[0] == "account":
		var found string
		found, err = account(context.Background(), given[1:])
		fmt.Println(found)
	default:
		_, err = check(given)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// check returns settings of the form key=value, and reports mistakes in them. make runs it before it builds the functions, which
// the synthesis needs.
func check(given []string) (stack.Settings, error) {
	context := map[string]string{}
	for _, each := range given {
		key, value, _ := strings.Cut(each, "=")
		context[key] = value
	}
	return read(context)
}

// read returns the settings in the context of the CDK and in stages.json.
func read(context map[string]string) (stack.Settings, error) {
	stages, err := os.ReadFile("stages.json")
	if err != nil {
		return stack.Settings{}, fmt.Errorf("stages: %w", err)
	}
	return stack.Read(stages, context)
}

// synthesize writes the templates. The CDK and the constructs report mistakes with a panic;
// synthesize returns it as an error.
func synthesize() (err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("%v", problem)
		}
	}()
	app := awscdk.NewApp(nil)
	context := map[string]string{}
	all, _ := app.Node().GetAllContext(nil).(map[string]any)
	for key, value := range all {
		context[key] = fmt.Sprint(value)
	}
	settings, err := read(context)
	if err != nil {
		return err
	}
	if settings.Warning != "" {
		fmt.Fprintln(os.Stderr, "warning:", settings.Warning)
	}
	settings.In("..")                                 // the CDK runs this program in infra, the folder of cdk.json
	settings.Region = os.Getenv("CDK_DEFAULT_REGION") // the CDK sets it to the region of the deployment
	stack.NewEach(app, settings)
	app.Synth(nil)
	return nil
}
