package ratelimit

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
)

// GrantManageKeys permits a principal, for example a role, to run `weir keys`: to create, list,
// rotate and revoke API keys, and to remove their entries from the list of distributions.
func (l *Limits) GrantManageKeys(to awsiam.IGrantable) awsiam.Grant {
	return l.withList(awsiam.Grant_AddToPrincipal(&awsiam.GrantOnPrincipalOptions{Grantee: to, Actions: jsii.Strings(contract.KeyActions()...), ResourceArns: &[]*string{l.records.TableArn()}}), to, contract.ListActions())
}

// withList adds the permission to change the list of distributions, if there is one.
func (l *Limits) withList(grant awsiam.Grant, to awsiam.IGrantable, actions []string) awsiam.Grant {
	if l.list == nil {
		return grant
	}
	return grant.Combine(awsiam.Grant_AddToPrincipal(&awsiam.GrantOnPrincipalOptions{Grantee: to, Actions: jsii.Strings(actions...), ResourceArns: &[]*string{l.List()}}))
}

// GrantPublishRules permits a principal to run `weir rules`, and to end entries of older rules in the list of distributions.
// On the table, it includes only the items of the rules, because this also contains API keys and the secrets that verify them.
func (l *Limits) GrantPublishRules(to awsiam.IGrantable) awsiam.Grant {
	on := func(actions []string, keys ...string) awsiam.Grant {
		return awsiam.Grant_AddToPrincipal(&awsiam.GrantOnPrincipalOptions{
			Grantee: to, Actions: jsii.Strings(actions...), ResourceArns: &[]*string{l.records.TableArn()},
			Conditions: &map[string]*map[string]any{
				"ForAllValues:StringLike": {"dynamodb:LeadingKeys": keys},
				"Null":                    {"dynamodb:LeadingKeys": "false"}, // ForAllValues is also true for a call without keys; this condition denies such a call
			},
		})
	}
	return l.withList(on(contract.RulesActions(), contract.RulesKeys()...).Combine(on(contract.RecordActions(), contract.DeployedRulesKey(l.props.Namespace))), to, contract.RetireActions())
}
