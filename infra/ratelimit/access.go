package ratelimit

import (
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
)

// access is what a function needs to enforce the limits.
type access struct {
	variables  map[string]*string // variables that functions/boot reads
	statements []*awsiam.PolicyStatementProps
	network    *network // nil if the function is in no VPC
}

func (a *access) allow(actions []string, resources ...*string) {
	a.permit(&awsiam.PolicyStatementProps{Actions: jsii.Strings(actions...), Resources: &resources})
}

func (a *access) permit(statement *awsiam.PolicyStatementProps) {
	a.statements = append(a.statements, statement)
}

// set adds variables whose values are known at synthesis.
func (a *access) set(variables map[string]string) {
	for name, value := range variables {
		a.variables[name] = jsii.String(value)
	}
}

func (a *access) add(b access) {
	maps.Copy(a.variables, b.variables)
	a.statements = append(a.statements, b.statements...)
	if b.network != nil {
		a.network = b.network
	}
}

func (l *Limits) access() access {
	a := l.state.access()
	if l.props.inNetwork() {
		a.add(l.network.access())
	}
	a.permit(l.record(contract.RecordActions(), l.props.recordKeys()...))
	a.permit(l.newKey(contract.CreateActions(), contract.SubjectKeyKey))
	a.variables[contract.VariableRecordsTable] = l.records.TableName()
	if len(l.attached) > 0 { // newAttachment sets it on earlier functions
		a.variables[contract.VariableBehindAuthorizer] = jsii.String("true")
	}
	a.set(l.props.variables())
	a.set(l.props.Variables)
	a.add(l.regionsAccess())
	if l.props.Key != nil {
		a.permit(l.keyAccess())
	}
	return a
}

// keyAccess returns a statement that allows DynamoDB to use the key for a function.
func (l *Limits) keyAccess() *awsiam.PolicyStatementProps {
	return &awsiam.PolicyStatementProps{
		Actions:   jsii.Strings("kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"),
		Resources: &[]*string{l.props.Key.KeyArn()},
		Conditions: &map[string]any{"StringEquals": map[string]any{"kms:ViaService": jsii.Sprintf("dynamodb.%s.amazonaws.com",
			*awscdk.Stack_Of(l).Region())}},
	}
}

// permitAll gives f the permissions of a, and connects f to its network.
func permitAll(f awslambda.Function, a access) {
	for _, statement := range a.statements {
		permit(f, statement)
	}
	if a.network != nil {
		a.network.join(f)
	}
}

// setVariables sets variables in alphabetical order, so that templates are reproducible.
func setVariables(f awslambda.Function, variables map[string]*string) {
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		f.AddEnvironment(jsii.String(name), variables[name], nil)
	}
}

// recordKeys returns the patterns of the partition keys of the records that a function reads to make decisions.
func (p *LimitsProps) recordKeys() []string {
	keys := []string{contract.SubjectKeyKey, contract.InterventionsKey}
	if p.Variables[contract.VariableAPIKeyHeader] != contract.NoAPIKeys {
		keys = append(keys, contract.SecretsKey, contract.APIKeyPrefix+"*")
	}
	switch {
	case p.RulesFrom == contract.RulesTable:
		keys = append(keys, contract.RulesKey)
	case p.deployed():
		keys = append(keys, contract.DeployedRulesKey(p.Namespace))
	}
	if p.inNetwork() { // even without an issuer: this gives away nothing, because the keys are public
		keys = append(keys, contract.SigningKeysKey)
	}
	if p.reporting().Counts {
		keys = append(keys, contract.MACKeyKey)
	}
	return keys
}

// record returns a statement that allows actions on the items of the records table whose keys match one of
// the patterns.
func (l *Limits) record(actions []string, keys ...string) *awsiam.PolicyStatementProps {
	return &awsiam.PolicyStatementProps{
		Actions:   jsii.Strings(actions...),
		Resources: &[]*string{l.records.TableArn()},
		Conditions: &map[string]any{
			"ForAllValues:StringLike": map[string]any{"dynamodb:LeadingKeys": keys},
			// ForAllValues is also true for a call without keys; this condition denies such a call
			"Null": map[string]string{"dynamodb:LeadingKeys": "false"},
		},
	}
}

func permit(f awslambda.Function, statement *awsiam.PolicyStatementProps) {
	f.AddToRolePolicy(awsiam.NewPolicyStatement(statement))
	// An imported role that the app cannot change would silently drop the statement.
	isPolicy := func(c constructs.IConstruct) bool { _, ok := c.(awsiam.Policy); return ok }
	if !slices.ContainsFunc(*f.Role().Node().FindAll(""), isPolicy) {
		panic(fmt.Errorf("ratelimit: %s: this app cannot change the function's role, which lacks %s and other permissions of the limits; use "+
			"a role of this app", *f.Node().Path(), *(*statement.Actions)[0]))
	}
}
