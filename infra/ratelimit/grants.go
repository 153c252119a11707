package ratelimit

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
)

// GrantManageKeys permits a principal, for example a role, to run `weir keys`: to create, list,
// rotate and revoke API keys, and to remove their entries from the list of distributions.
func (l *Limits) GrantManageKeys(to awsiam.IGrantable) awsiam.Grant {
	return l.withList(grant(to, contract.KeyActions(), l.records.TableArn(), nil), to, contract.ListActions())
}

// withList adds the permission to change the list of distributions, if there is one.
func (l *Limits) withList(given awsiam.Grant, to awsiam.IGrantable, actions []string) awsiam.Grant {
	if l.list == nil {
		return given
	}
	return given.Combine(grant(to, actions, l.List(), nil))
}

func grant(to awsiam.IGrantable, actions []string, resource *string, conditions *map[string]*map[string]any) awsiam.Grant {
	return awsiam.Grant_AddToPrincipal(&awsiam.GrantOnPrincipalOptions{Grantee: to, Actions: jsii.Strings(actions...), ResourceArns: &[]*string{resource}, Conditions: conditions})
}

// GrantPublishRules permits a principal to run `weir rules`, and to end entries of older rules in the list of distributions.
// On the table, it includes only the items of the rules, because this also contains API keys and the secrets that verify them.
func (l *Limits) GrantPublishRules(to awsiam.IGrantable) awsiam.Grant {
	on := func(actions []string, keys ...string) awsiam.Grant {
		return grant(to, actions, l.records.TableArn(), &map[string]*map[string]any{
			"ForAllValues:StringLike": {"dynamodb:LeadingKeys": keys},
			"Null":                    {"dynamodb:LeadingKeys": "false"}, // as in record
		})
	}
	return l.withList(on(contract.RulesActions(), contract.RulesKeys()...).Combine(on(contract.RecordActions(), contract.DeployedRulesKey(l.props.Namespace))), to, contract.RetireActions())
}
