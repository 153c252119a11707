package ratelimit

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
)

// AddLayer limits a function of a managed runtime, such as Node.js or Python. It adds the layer, which decides before
// the code of the function runs. The code of the function does not change. The function gets the access of
// [Limits.Equip], and an alarm on its errors. The variables have the names of contract.LayerVariable, so that they do
// not collide with the function's own variables. The code of the function has these permissions, too: it can set any
// caller's counts (SECURITY.md, "Who can do what").
//
// AddLayer panics if the layer cannot work in the function: if the runtime is not a managed one, the architecture
// differs from the architecture of the limits, or the function has SnapStart or another wrapper script. It also
// panics where [Limits.Equip] does. The synthesis fails if a wrapper script is set later.
func (l *Limits) AddLayer(f awslambda.Function) {
	if err := l.checkLayered(f); err != nil {
		panic(fmt.Errorf("ratelimit: %s: %w", *f.Node().Path(), err))
	}
	permitAll(f, l.access())
	variables := l.LayerVariables()
	variables[contract.VariableWrapper] = jsii.String(layerWrapper)
	setVariables(f, variables)
	f.AddLayers(l.Layer())
	// Without a log group of this app, LogGroup would create a custom resource.
	if property(f, "loggingConfig")["logGroup"] != nil {
		l.watch(f.LogGroup().LogGroupName())
		l.forwardLines(f, "", f.LogGroup())
	}
	l.layered = append(l.layered, f)
	l.publishAfter(f)
	l.newErrorsAlarm(f, alarmID(f), f, false)
}

// layerWrapper is the path of the layer's wrapper script in a function.
const layerWrapper = contract.LayerRoot + contract.LayerWrapper

func (l *Limits) checkLayered(f awslambda.Function) error {
	runtime, architecture := *f.Runtime().Name(), *f.Architecture().Name()
	if runtime == *awslambda.Runtime_FROM_IMAGE().Name() || strings.HasPrefix(runtime, "provided") || strings.HasPrefix(runtime, "go") {
		return fmt.Errorf("got the runtime %s, want a managed one, such as nodejs22.x; Lambda runs no wrapper script in others, so limit a Go "+
			"function in its handler, with Equip, and copy the files of the layer into a container image", runtime)
	}
	if want := l.props.Architecture; architecture != want {
		return fmt.Errorf("got the architecture %s, want %s, that of the layer; change it, or LimitsProps.Architecture", architecture, want)
	}
	if applied := property(f, "snapStart")["applyOn"]; applied != nil && applied != "None" {
		return fmt.Errorf("got SnapStart on %v, want none, because the extension reads its credentials when it starts; remove SnapStart", applied)
	}
	switch wrapper := wrapperOf(f); wrapper {
	case "":
		return nil
	case layerWrapper:
		return errors.New("the function already has a layer of limits, want one")
	default:
		return wrapperError(wrapper)
	}
}

func wrapperError(wrapper string) error {
	return fmt.Errorf("%s: got %s, want none, because a function has one wrapper script; remove it, or let it end with exec %s \"$@\" and "+
		"add Layer and LayerVariables yourself", contract.VariableWrapper, wrapper, layerWrapper)
}

// wrapperOf returns the function's wrapper script (AWS_LAMBDA_EXEC_WRAPPER), or "".
func wrapperOf(f awslambda.Function) string {
	variables, _ := property(f, "environment")["variables"].(map[string]any)
	if variables[contract.VariableWrapper] == nil {
		return ""
	}
	return fmt.Sprint(variables[contract.VariableWrapper])
}

// property returns a property of f as it is in the template. The CDK computes some of them late, and with jsii 1.142 their own
// methods, such as Environment, return empty objects.
func property(f awslambda.Function, name string) map[string]any {
	all := *f.Node().DefaultChild().(awslambda.CfnFunction).CfnProperties()
	if all[name] == nil {
		return nil
	}
	made, _ := awscdk.Stack_Of(f).Resolve(all[name]).(map[string]any)
	return made
}

// Layer returns the layer with the extension, the wrapper script and the rules. [Limits.AddLayer]
// adds it to a function.
func (l *Limits) Layer() awslambda.ILayerVersion {
	if l.layer != nil {
		return l.layer
	}
	code, done := l.code(l.Bundle(contract.Extension), contract.LayerExtension, map[string]string{
		contract.LayerWrapper: contract.LayerScript(), contract.LayerRules: string(l.props.document),
	})
	defer done()
	l.layer = awslambda.NewLayerVersion(l, jsii.String("Layer"), &awslambda.LayerVersionProps{
		Code: code, Description: jsii.String("Weir: limits requests before the function runs"),
		CompatibleArchitectures: &[]awslambda.Architecture{l.architecture()},
	})
	// An update creates a new version of the layer. Keep the previous version: functions of other
	// stacks use its ARN, and Lambda rejects an update of a function whose layer version was
	// deleted.
	resource := l.layer.Node().DefaultChild().(awscdk.CfnResource)
	resource.ApplyRemovalPolicy(awscdk.RemovalPolicy_DESTROY, nil)
	resource.CfnOptions().SetUpdateReplacePolicy(awscdk.CfnDeletionPolicy_RETAIN)
	return l.layer
}

// LayerVariables returns the variables that a function outside this app needs for the layer, except
// AWS_LAMBDA_EXEC_WRAPPER.
func (l *Limits) LayerVariables() map[string]*string {
	variables := map[string]*string{}
	for name, value := range l.access().variables {
		variables[contract.LayerVariable(name)] = value
	}
	variables[contract.LayerVariable(contract.VariableRulesFile)] = jsii.String(contract.LayerRoot + contract.LayerRules)
	return variables
}

// NewLayerPolicy creates the policy that a function outside this app needs for the layer.
func (l *Limits) NewLayerPolicy() awsiam.ManagedPolicy {
	var statements []awsiam.PolicyStatement
	for _, s := range l.access().statements {
		statements = append(statements, awsiam.NewPolicyStatement(s))
	}
	return awsiam.NewManagedPolicy(l, jsii.String("LayerPolicy"), &awsiam.ManagedPolicyProps{
		Description: jsii.String("Permissions of a function with the layer of Weir"), Statements: &statements,
	})
}
