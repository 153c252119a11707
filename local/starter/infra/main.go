// Command infra is the CDK app. Run it with `make synth` or `make deploy`.
package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
)

func main() {
	defer jsii.Close()
	app := awscdk.NewApp(nil)
	newStack(app, "dev", "../dist/arm64")
	app.Synth(nil)
}
