// Command infra is the CDK app. Run it with `make synth` or `make deploy`.
package main

import (
	"cmp"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
)

func main() {
	defer jsii.Close()
	app := awscdk.NewApp(nil)
	stage, _ := app.Node().TryGetContext(jsii.String("stage")).(string) // of CONTEXT=stage=prod
	newStack(app, cmp.Or(stage, "dev"), "../dist/arm64")
	app.Synth(nil)
}
