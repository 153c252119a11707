package verify

import (
	"context"
	"slices"
)

// Account tests the rows with [NeedStack] by calls of AWS.
type Account interface {
	// Check tests the row with an ID.
	Check(ctx context.Context, row string) Observation
}

// accountRows are the rows that the deployment's account proves. The rows about metrics, logs and the
// dashboard need the requests of earlier rows.
var accountRows = []Row{
	byAccount("deploy", "A deployment succeeds, with either store.", "`make deploy`, `make deploy CONTEXT=\"stage=cache store=elasticache\"`"),
	byAccount("drift", "Each resource whose type CloudFormation can compare is as in the template.", "`aws cloudformation detect-stack-drift --stack-name …`; some minutes later `aws cloudformation describe-stack-resource-drifts --stack-name …`"),
	byAccount("http-route-settings", "No route of the HTTP API has settings of its own, such as a throttle.", "`aws apigatewayv2 get-stage --api-id … --stage-name '$default'`"),
	byAccount("domain-mappings", "The path of each custom domain's mapping to an API is in `BASE_PATH`.", "`aws apigatewayv2 get-api-mappings --domain-name …`"),
	byAccount("functions-active", "The functions are active.", "`aws lambda get-function-configuration --function-name …`"),
	byAccount("vpc-policy", "Lambda can connect a function to a VPC although the policy denies the permissions to the function's code.", "a deployment with `store=elasticache`; the state of its functions is `Active`"),
	byAccount("role-policies", "The roles of the functions have the policies of the template, and no others.", "`aws iam get-role-policy --role-name … --policy-name …`"),
	byAccount("role-permissions", "IAM permits the calls of the functions on their tables and items, and denies similar calls.", "`aws iam simulate-principal-policy --policy-source-arn …`"),
	byAccount("alarm-states", "Each alarm has a state, and its actions are on.", "`aws cloudwatch describe-alarms --alarm-name-prefix weir-dev-`"),
	byAccount("alarm-arrives", "Alarms reach the topic.", "`aws cloudwatch set-alarm-state --alarm-name weir-dev-degraded --state-value ALARM --state-reason try`", NeedFaults),
	byAccount("metrics", "Functions with JSON logs produce metrics in the embedded format.", "`aws cloudwatch list-metrics --namespace Weir/dev`; the dashboard", NeedAnyURL),
	byAccount("alarm-metrics", "CloudWatch has the metrics of the alarms. Those of ElastiCache Serverless have the dimension `clusterId`.", "`aws cloudwatch list-metrics --namespace AWS/ElastiCache`, 15 minutes after the first requests"),
	byAccount("dashboard", "The dashboard shows refusals by rule (a SEARCH expression).", "the dashboard, after some refusals", NeedAnyURL),
	byAccount("log-errors", "The functions log no errors during the run.", "the logs of the functions, with the filter `{ $.level = \"ERROR\" }`"),
	byAccount("subject-key-policy", "The condition `dynamodb:LeadingKeys` permits functions to create the key of subject hashes.", "the first request after `make deploy`; no line `subject hash key not read` in the log of the authorizer", NeedAnyURL),
	byAccount("signing-keys-policy", "The condition `dynamodb:LeadingKeys` permits the function SigningKeys to write its item.", "its log, five minutes after a deployment with `store=elasticache` and an issuer"),
	byAccount("settlement-subscription", "The function Forward gets the lines of the access log with a receipt, and settles them without errors.", "the metrics `Invocations` and `Errors` of the function Forward", NeedAnyURL),
	byAccount("regions-tables", "Each region that shares limits has the table of counters and the records.", "`aws dynamodb describe-table --table-name weir-dev-counters --region …`"),
	byAccount("regions-settings", "The functions of all regions that share limits have the same list of regions, in the same order, and the same namespace.", "`aws lambda get-function-configuration --function-name … --region …`: `REGIONS` and `NAMESPACE`"),
	byAccount("regions-reached", "The functions reach the tables of the other regions.", "the metrics `RegionCalls` and `RegionsFailed`; the alarm `regions-failed`", NeedRegionURL),
	byAccount("elasticache-login", "The IAM login to ElastiCache works, and so does its ACL. A user group of the engine Valkey needs no user `default`, unlike Redis OSS.", "`make deploy CONTEXT=\"stage=cache store=elasticache\"`, then `curl -i` and the alarm `degraded`", NeedAnyURL),
}

func byAccount(id, claim, hand string, needs ...Need) Row {
	return Row{
		ID: id, Claim: claim, Hand: hand, Needs: slices.Concat([]Need{NeedStack}, needs),
		Check: func(ctx context.Context, s *session) Observation { return s.Account.Check(ctx, id).printable() },
	}
}
