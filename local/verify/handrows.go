package verify

// handRows are the rows that a person tests on AWS.
var handRows = []Row{
	byHand("deploy", "A deployment succeeds, with either store.", "`make deploy`, `make deploy CONTEXT=\"stage=cache store=elasticache\"`"),
	byHand("alarm-arrives", "Alarms reach the topic.", "`aws cloudwatch set-alarm-state --alarm-name weir-dev-degraded --state-value ALARM --state-reason try`"),
	byHand("denied-price", "A refused request costs what [COSTS.md](COSTS.md) states.", "Cost Explorer, a day after `for i in $(seq 100000); do curl -so /dev/null $URL/api/v1/search; done`"),
	byHand("elasticache-login", "The IAM login to ElastiCache works, and so does its ACL. A user group of the engine Valkey needs no user `default`, unlike Redis OSS.", "`make deploy CONTEXT=\"stage=cache store=elasticache\"`, then `curl -i` and the alarm `degraded`"),
	byHand("vpc-policy", "Lambda can connect a function to a VPC although the policy denies the permissions to the function's code.", "the same deployment"),
	byHand("metrics", "Functions with JSON logs produce metrics in the embedded format, and the Contributor Insights rule has data.", "`aws cloudwatch list-metrics --namespace Weir/dev`; the dashboard"),
	byHand("signing-keys-policy", "The condition `dynamodb:LeadingKeys` permits the function SigningKeys to write its item.", "its log, five minutes after a deployment with `store=elasticache` and an issuer"),
	byHand("subject-key-policy", "The condition `dynamodb:LeadingKeys` permits functions to create the key of subject hashes.", "the first request after `make deploy`; no line `subject hash key not read` in the log of the authorizer"),
	byHand("events", "Events reach a stream, and Amazon MSK by IAM.", "`make deploy CONTEXT=\"stage=try events=kinesis\"`, then `.bin/weir top --stream NAME`; the alarm `events-dropped`"),
	byHand("appconfig", "Rules from AppConfig arrive through the agent's layer within a minute.", "`make deploy` with `rulesFrom` and `appConfigLayer`, a deployment in AppConfig, then the dashboard's third row"),
	byHand("dashboard", "The dashboard shows refusals by rule (a SEARCH expression).", "the dashboard, after some requests"),
	byHand("publisher-policy", "The policy of a publisher of rules is sufficient.", "publish rules with a role that has this policy"),
	byHand("attached", "Limits work on an imported API, and on one from OpenAPI ([ATTACH.md](ATTACH.md)).", "a deployment of each, then `curl -i` until the limit refuses"),
	byHand("latency", "Latencies and cold starts are those of the [benchmarks](../limiter/BENCHMARKS.md) plus the network.", "the dashboard's second row under load"),
}

// byHand returns a row that only a person can test.
func byHand(id, claim, hand string) Row {
	return Row{ID: id, Claim: claim, Hand: hand, Needs: []Need{NeedPerson}}
}
