package ratelimit

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
)

// GrantManageKeys permits a principal, for example a role, to run `weir keys`: to create, list, change
// and revoke API keys.
func (l *Limits) GrantManageKeys(to awsiam.IGrantable) awsiam.Grant {
	return grant(to, contract.KeyActions(), l.records.TableArn(), nil)
}

func grant(to awsiam.IGrantable, actions []string, resource *string, conditions *map[string]*map[string]any) awsiam.Grant {
	return awsiam.Grant_AddToPrincipal(&awsiam.GrantOnPrincipalOptions{Grantee: to, Actions: jsii.Strings(actions...),
		ResourceArns: &[]*string{resource}, Conditions: conditions})
}

// GrantPublishRules permits a principal to run `weir rules`, `weir block`, `weir unblock` and `weir raise`.
// On the table, it includes only the items of the rules, because this also contains API keys and the secrets that verify them.
func (l *Limits) GrantPublishRules(to awsiam.IGrantable) awsiam.Grant {
	on := func(actions []string, keys ...string) awsiam.Grant {
		return grant(to, actions, l.records.TableArn(), &map[string]*map[string]any{
			"ForAllValues:StringLike": {"dynamodb:LeadingKeys": keys},
			"Null":                    {"dynamodb:LeadingKeys": "false"}, // as in record
		})
	}
	return on(contract.RulesActions(), contract.RulesKeys()...).Combine(on(contract.RecordActions(),
		contract.DeployedRulesKey(l.props.Namespace)))
}
