package ratelimit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
)

// Memory is the functions' memory in MB. Lambda gives CPU in proportion. Less makes cold starts
// much longer; more does not make warm decisions faster.
const Memory = 512

const (
	authorizerTimeout = 5 * time.Second
	handlerTimeout    = 10 * time.Second

	bootstrap = "bootstrap"
	rulesFile = "rules.json"
	taskRoot  = "/var/task/"
)

// FunctionProps are the properties of [Limits.NewFunction]. Bundle, Role and Timeout are
// required.
type FunctionProps struct {
	// Bundle is the folder with the function's bootstrap.
	Bundle string
	// Role is authorizer, handler, log, signingkeys or publisher. The local gateway uses it to find the functions.
	Role string
	// Timeout limits one invocation.
	Timeout time.Duration
	// ReservedConcurrency is like [LimitsProps].ReservedConcurrency.
	ReservedConcurrency *float64
}

// NewFunction creates a function whose bundle gets the rules, with its own log group and role, and
// equips it like [Limits.Equip].
func (l *Limits) NewFunction(id string, p FunctionProps) awslambda.Function {
	f := l.newFunction(id, p, map[string]string{rulesFile: string(l.props.document)})
	l.equip(f)
	l.watch(f.LogGroup().LogGroupName())
	l.newFunctionAlarms(id, f, p.Role)
	l.forwardLines(l, id, f.LogGroup())
	return f
}

// newFunction creates a function with a role and a log group of its own. Its bundle gets texts by their names.
func (l *Limits) newFunction(id string, p FunctionProps, texts map[string]string) awslambda.Function {
	code, done := l.code(p.Bundle, bootstrap, texts)
	defer done()
	logs := awslogs.NewLogGroup(l, jsii.String(id+"Logs"), &awslogs.LogGroupProps{
		Retention: l.props.LogRetention, RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
	})
	f := awslambda.NewFunction(l, &id, &awslambda.FunctionProps{
		Runtime: awslambda.Runtime_PROVIDED_AL2023(), Handler: jsii.String(bootstrap), Code: code, Architecture: l.architecture(),
		MemorySize: jsii.Number(Memory), Timeout: awscdk.Duration_Seconds(jsii.Number(p.Timeout.Seconds())),
		ReservedConcurrentExecutions: p.ReservedConcurrency, Environment: &map[string]*string{contract.VariableFunction: jsii.String(p.Role)},
		Role: awsiam.NewRole(l, jsii.String(id+"Role"), &awsiam.RoleProps{
			AssumedBy: awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		}),
		// Lambda's default logs two more lines per request, which would be most of the cost of logs.
		LogGroup: logs, LoggingFormat: awslambda.LoggingFormat_JSON, SystemLogLevelV2: awslambda.SystemLogLevel_WARN,
	})
	permit(f, &awsiam.PolicyStatementProps{Actions: jsii.Strings("logs:CreateLogStream", "logs:PutLogEvents"),
		Resources: &[]*string{logs.LogGroupArn()}})
	if l.props.Key != nil && texts == nil { // the others get access
		permit(f, l.keyAccess())
	}
	return f
}

// Equip gives a function the access that the limiter needs: the variables of functions/boot, the
// network, and permissions for the store, the records and the destination of events. The bundle of
// the function must contain the rules document as rules.json.
//
// Equip panics if this app cannot change the role of the function. It also panics if the function is
// in another network than the limits. In that case set [LimitsProps].Vpc to the network of the
// function. Equip adds an alarm on the errors of the function.
func (l *Limits) Equip(f awslambda.Function) {
	l.equip(f)
	l.newErrorsAlarm(f, alarmID(f), f, true) // the function may be an authorizer
}

func (l *Limits) equip(f awslambda.Function) {
	a := l.access()
	permitAll(f, a)
	setVariables(f, a.variables)
	l.equipped = append(l.equipped, f)
	l.publishAfter(f)
}

// newAuthorizer creates the authorizer. It may create the key of MACs if a back end reports costs.
func (l *Limits) newAuthorizer() awslambda.Function {
	f := l.NewFunction("Authorizer", FunctionProps{
		Bundle: l.Bundle(contract.Authorizer), Role: contract.Authorizer,
		Timeout: authorizerTimeout, ReservedConcurrency: l.props.ReservedConcurrency,
	})
	if l.props.reporting().Counts {
		permit(f, l.newKey(contract.CreateActions(), contract.MACKeyKey))
	}
	setVariables(f, map[string]*string{contract.VariableRefusal: jsii.String(l.props.found.Refusal)})
	if l.props.WeirBehind {
		setVariables(f, map[string]*string{contract.VariableBackEnd: jsii.String(contract.BackEndWeir)})
	}
	return f
}

func (l *Limits) architecture() awslambda.Architecture {
	return awslambda.Architecture_Custom(&l.props.Architecture, nil)
}

// Bundle returns the folder in LimitsProps.Bundles for a role.
func (l *Limits) Bundle(role string) string { return filepath.Join(l.props.Bundles, role) }

// code returns the code of a function or of the layer: the bundle, whose program gets a name, and texts by their names, in
// one folder, which a CDK asset is. Call done after the function or the layer exists.
func (l *Limits) code(bundle, program string, texts map[string]string) (code awslambda.Code, done func()) {
	if l.props.Code != nil {
		return l.props.Code(filepath.Base(bundle)), func() {}
	}
	folder, err := "", l.props.checkBundle(bundle)
	if err == nil {
		folder, err = os.MkdirTemp("", "weir-bundle-")
	}
	if err != nil {
		panic(fmt.Errorf("ratelimit: bundle %s: %w", bundle, err))
	}
	in := func(name string) string { return filepath.Join(folder, filepath.FromSlash(name)) }
	err = errors.Join(os.CopyFS(folder, os.DirFS(bundle)), os.MkdirAll(filepath.Dir(in(program)), 0o755),
		os.Rename(in(bootstrap), in(program)), os.Chmod(in(program), 0o755))
	for name, text := range texts {
		err = errors.Join(err, os.WriteFile(in(name), []byte(text), 0o600), os.Chmod(in(name), 0o755)) // whatever the umask is
	}
	if err != nil {
		panic(fmt.Errorf("ratelimit: bundle %s: %w", bundle, err))
	}
	return awslambda.Code_FromAsset(&folder, nil), func() { _ = os.RemoveAll(folder) }
}
