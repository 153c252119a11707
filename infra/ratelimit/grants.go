package ratelimit

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
)

// GrantManageKeys permits a principal, for example a role, to run `weir keys`: to create, list, change
// and revoke API keys. It panics if this app cannot change the principal's policy.
func (l *Limits) GrantManageKeys(to awsiam.IGrantable) {
	grant(to, &awsiam.PolicyStatementProps{Actions: jsii.Strings(contract.KeyActions()...), Resources: &[]*string{l.records.TableArn()}})
}

// GrantPublishRules permits a principal to run `weir rules`, `weir block`, `weir unblock` and `weir raise`. On the table, it includes
// only the items of the rules, because this also contains API keys and the secrets that verify them. It panics as GrantManageKeys does.
func (l *Limits) GrantPublishRules(to awsiam.IGrantable) {
	grant(to, l.record(contract.RulesActions(), contract.RulesKeys()...))
	grant(to, l.record(contract.RecordActions(), contract.DeployedRulesKey(l.props.Namespace)))
}

func grant(to awsiam.IGrantable, statement *awsiam.PolicyStatementProps) {
	if added := to.GrantPrincipal().AddToPrincipalPolicy(awsiam.NewPolicyStatement(statement)); !*added.StatementAdded {
		panic(fmt.Errorf("ratelimit: this app cannot change the policy of the principal, which lacks %s; use a role of this app",
			*(*statement.Actions)[0]))
	}
}
