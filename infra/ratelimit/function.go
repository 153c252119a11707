package ratelimit

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
)

// Memory is what the functions have, in MB. Lambda's CPU grows with it: with less a cold
// start takes visibly longer, with more a warm decision no less.
const Memory = 512

const (
	authorizerTimeout = 5 * time.Second
	handlerTimeout    = 10 * time.Second

	bootstrap = "bootstrap"
	rulesFile = "rules.json"
	taskRoot  = "/var/task/"
)

// FunctionProps are what [Limits.NewFunction] is told.
type FunctionProps struct {
	// Bundle is the folder of the function's bootstrap.
	Bundle string
	// Role tells the local gateway which function this is: authorizer, handler or
	// signingkeys.
	Role string
	// Timeout is how long an invocation may take.
	Timeout time.Duration
	// ReservedConcurrency is as in [LimitsProps].
	ReservedConcurrency *float64
}

// NewFunction makes a function from a bootstrap, with the rules in its bundle, a log
// group, a role that can do nothing, and then [Limits.Equip].
func (l *Limits) NewFunction(id string, p FunctionProps) awslambda.Function {
	f, done := l.newFunction(id, p, l.props.Rules)
	defer done()
	l.Equip(f)
	return f
}

// newFunction makes a function; document goes into its bundle unless it is empty. done
// removes what was only needed until now.
func (l *Limits) newFunction(id string, p FunctionProps, document string) (f awslambda.Function, done func()) {
	bundle, done := stage(p.Bundle, document)
	logs := awslogs.NewLogGroup(l, jsii.String(id+"Logs"), &awslogs.LogGroupProps{
		Retention: l.retention(), RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
	})
	role := awsiam.NewRole(l, jsii.String(id+"Role"), &awsiam.RoleProps{AssumedBy: awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil)})
	f = awslambda.NewFunction(l, jsii.String(id), &awslambda.FunctionProps{
		Runtime: awslambda.Runtime_PROVIDED_AL2023(), Handler: jsii.String(bootstrap),
		Code:         awslambda.Code_FromAsset(jsii.String(bundle), nil),
		Architecture: l.architecture(), MemorySize: jsii.Number(Memory),
		Timeout: awscdk.Duration_Seconds(jsii.Number(p.Timeout.Seconds())),
		Role:    role, LogGroup: logs, LoggingFormat: awslambda.LoggingFormat_JSON,
		// Two lines of Lambda's own for each request would be most of what logs cost.
		SystemLogLevelV2: awslambda.SystemLogLevel_WARN,
		Tracing:          l.tracing(), ReservedConcurrentExecutions: p.ReservedConcurrency,
		Environment: &map[string]*string{contract.VariableFunction: jsii.String(p.Role)},
	})
	allow(f, []string{"logs:CreateLogStream", "logs:PutLogEvents"}, logs.LogGroupArn())
	if l.props.Tracing {
		Excuse(role, "AwsSolutions-IAM5", "X-Ray's actions know no resource.", "Resource::*")
	}
	if document != "" {
		l.watch(logs)
		l.newFunctionAlarms(id, f, p.ReservedConcurrency)
	}
	return f, done
}

// Equip gives a function what the limiter in it needs: the variables that
// functions/boot reads, permission for the store, the records and what takes events, and the
// network that they are in. The function's bundle must have the rules document as rules.json.
//
// It panics if the function's role is not for this app to change, or if the function is in a network
// and the limits have one of their own: give them the function's, as LimitsProps.Vpc.
func (l *Limits) Equip(f awslambda.Function) {
	l.state.equip(f)
	if l.network != nil {
		l.network.join(f)
	}
	allow(f, contract.RecordActions(), l.records.TableArn())
	variables := map[string]*string{contract.VariableRecordsTable: l.records.TableName()}
	for _, each := range []map[string]string{l.props.variables(), l.props.Variables} {
		for name, value := range each {
			variables[name] = jsii.String(value)
		}
	}
	setVariables(f, variables)
	l.equipEvents(f)
	l.equipRules(f)
	l.equipped = append(l.equipped, f)
}

// newAuthorizer makes the authorizer.
func (l *Limits) newAuthorizer() awslambda.Function {
	return l.NewFunction("Authorizer", FunctionProps{
		Bundle: filepath.Join(l.props.Bundles, contract.Authorizer), Role: contract.Authorizer,
		Timeout: authorizerTimeout, ReservedConcurrency: l.props.ReservedConcurrency,
	})
}

// newAlias returns what API Gateway invokes: the function or, with provisioned
// concurrency, which only a version can have, an alias of its newest one.
func (l *Limits) newAlias() awslambda.IFunction {
	if l.props.ProvisionedConcurrency == 0 {
		return l.authorizer
	}
	return awslambda.NewAlias(l, jsii.String("Live"), &awslambda.AliasProps{
		AliasName: jsii.String("live"), Version: l.authorizer.CurrentVersion(),
		ProvisionedConcurrentExecutions: jsii.Number(l.props.ProvisionedConcurrency),
	})
}

// stage copies a bundle and the rules into one folder, for an asset is a folder. remove
// must be called once the asset is made of it.
func stage(bundle, document string) (folder string, remove func()) {
	folder, err := os.MkdirTemp("", "weir-bundle-")
	if err == nil {
		err = os.CopyFS(folder, os.DirFS(bundle))
	}
	if err == nil && document != "" {
		var content []byte
		if content, err = os.ReadFile(document); err == nil {
			err = os.WriteFile(filepath.Join(folder, rulesFile), content, 0o644)
		}
	}
	if err == nil {
		err = os.Chmod(filepath.Join(folder, bootstrap), 0o755)
	}
	if err != nil {
		panic(fmt.Errorf("ratelimit: bundle %s: %w", bundle, err))
	}
	return folder, func() { _ = os.RemoveAll(folder) }
}

func (l *Limits) architecture() awslambda.Architecture {
	if l.props.Architecture != nil {
		return l.props.Architecture
	}
	return awslambda.Architecture_ARM_64()
}

func (l *Limits) retention() awslogs.RetentionDays {
	if l.props.LogRetention != "" {
		return l.props.LogRetention
	}
	return awslogs.RetentionDays_ONE_MONTH
}

func (l *Limits) tracing() awslambda.Tracing {
	if l.props.Tracing {
		return awslambda.Tracing_ACTIVE
	}
	return awslambda.Tracing_DISABLED
}

// setVariables sets variables in the order of their names, so that a template is the
// same each time.
func setVariables(f awslambda.Function, variables map[string]*string) {
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		f.AddEnvironment(jsii.String(name), variables[name], nil)
	}
}

// allow lets a function do actions on resources.
func allow(f awslambda.Function, actions []string, resources ...*string) {
	permit(f, &awsiam.PolicyStatementProps{Actions: jsii.Strings(actions...), Resources: &resources})
}

// permit adds a statement to the policy of a function's role.
func permit(f awslambda.Function, statement *awsiam.PolicyStatementProps) {
	f.AddToRolePolicy(awsiam.NewPolicyStatement(statement))
	// A role of another app's that is not to be changed takes statements and forgets them.
	if !slices.ContainsFunc(*f.Role().Node().FindAll(""), isPolicy) {
		panic(fmt.Errorf("ratelimit: the role of %s is not this app's to change: it lacks %s, and whatever else the limits need", *f.Node().Path(), *(*statement.Actions)[0]))
	}
}

func isPolicy(c constructs.IConstruct) bool {
	_, ok := c.(awsiam.Policy)
	return ok
}
