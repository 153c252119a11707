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
	byAccount("records-table", "The records table has point-in-time recovery and deletion protection.", "`aws dynamodb describe-continuous-backups --table-name …`"),
	byAccount("authorizer-cache", "API Gateway does not cache the results of the authorizer.", "`aws apigateway get-authorizers --rest-api-id …`: `authorizerResultTtlInSeconds` is 0"),
	byAccount("authorizer-methods", "Each method of the template has the authorizer.", "`aws apigateway get-resources --rest-api-id … --embed methods`"),
	byAccount("stage-settings", "The stage has the throttle of the template, and neither a cache nor logs of bodies.", "`aws apigateway get-stages --rest-api-id …`"),
	byAccount("http-stage-settings", "The stage of the HTTP API has the throttle and the access log of the template, and no route has a throttle of its own.", "`aws apigatewayv2 get-stage --api-id … --stage-name '$default'`"),
	byAccount("web-acl", "The web ACL protects the stage of the REST API, with the rules of the template. WAF does not protect HTTP APIs.", "`aws wafv2 get-web-acl-for-resource --resource-arn …`"),
	byAccount("domain-mappings", "The path of each custom domain's mapping to an API is in `BASE_PATH`.", "`aws apigatewayv2 get-api-mappings --domain-name …`"),
	byAccount("gateway-responses", "The API has the gateway responses of the template, and no other `ACCESS_DENIED` response.", "`aws apigateway get-gateway-responses --rest-api-id …`"),
	byAccount("function-settings", "The functions have the settings of the template and are active.", "`aws lambda get-function-configuration --function-name …`"),
	byAccount("vpc-policy", "Lambda can connect a function to a VPC although the policy denies the permissions to the function's code.", "a deployment with `store=elasticache`; the state of its functions is `Active`"),
	byAccount("role-policies", "The roles of the functions have the policies of the template, and no others.", "`aws iam get-role-policy --role-name … --policy-name …`"),
	byAccount("role-permissions", "IAM permits the calls of the functions on their tables and items, and denies similar calls.", "`aws iam simulate-principal-policy --policy-source-arn …`"),
	byAccount("alarm-states", "Each alarm is as in the template, with its metrics, and has a state.", "`aws cloudwatch describe-alarms --alarm-name-prefix weir-dev-`"),
	byAccount("alarm-arrives", "Alarms reach the topic.", "`aws cloudwatch set-alarm-state --alarm-name weir-dev-degraded --state-value ALARM --state-reason try`", NeedFaults),
	byAccount("metrics", "Functions with JSON logs produce metrics in the embedded format.", "`aws cloudwatch list-metrics --namespace Weir/dev`; the dashboard", NeedAnyURL),
	byAccount("alarm-metrics", "CloudWatch has the metrics of the alarms. Those of ElastiCache Serverless have the dimension `clusterId`.", "`aws cloudwatch list-metrics --namespace AWS/ElastiCache`, 15 minutes after the first requests"),
	byAccount("metric-filters", "The logs have the metric filters of the template.", "`aws logs describe-metric-filters --log-group-name …`"),
	byAccount("insight-rule", "The Contributor Insights rule is enabled and as in the template.", "`aws cloudwatch describe-insight-rules`"),
	byAccount("dashboard", "The dashboard shows refusals by rule (a SEARCH expression).", "the dashboard, after some refusals", NeedAnyURL),
	byAccount("log-errors", "The functions log no errors during the run.", "the logs of the functions, with the filter `{ $.level = \"ERROR\" }`"),
	byAccount("subject-key-policy", "The condition `dynamodb:LeadingKeys` permits functions to create the key of subject hashes.", "the first request after `make deploy`; no line `subject hash key not read` in the log of the authorizer", NeedAnyURL),
	byAccount("signing-keys-policy", "The condition `dynamodb:LeadingKeys` permits the function SigningKeys to write its item.", "its log, five minutes after a deployment with `store=elasticache` and an issuer"),
	byAccount("settlement-subscription", "The access log has the subscription of the template, and the function Settle gets the lines with a receipt and settles them without errors.", "`aws logs describe-subscription-filters --log-group-name …`; the metrics `Invocations` and `Errors` of the function Settle", NeedAnyURL),
	byAccount("elasticache-login", "The IAM login to ElastiCache works, and so does its ACL. A user group of the engine Valkey needs no user `default`, unlike Redis OSS.", "`make deploy CONTEXT=\"stage=cache store=elasticache\"`, then `curl -i` and the alarm `degraded`", NeedAnyURL),
	byAccount("events", "Events reach a stream.", "`make deploy CONTEXT=\"stage=try events=kinesis\"`, then `.bin/weir top --stream NAME`; the alarm `events-dropped`", NeedAnyURL),
	byAccount("appconfig", "Rules from AppConfig arrive through the agent's layer.", "`make deploy` with `rulesFrom` and `appConfigLayer`, a deployment in AppConfig, then the dashboard's third row", NeedAnyURL),
}

// byAccount returns a row that the account of the deployment proves.
func byAccount(id, claim, hand string, needs ...Need) Row {
	return Row{
		ID: id, Claim: claim, Hand: hand, Needs: slices.Concat([]Need{NeedStack}, needs),
		Check: func(ctx context.Context, s *session) Observation { return s.Account.Check(ctx, id).printable() },
	}
}
