package verify

var handRows = []Row{
	byHand("why", "CloudWatch Logs Insights reads the refusals in the logs.", "`.bin/weir why --stack NAME` after some refusals; the counts are those of the metric `Refused`"),
	byHand("edge-list", "The viewer function of a distribution refuses a flood soon after a function has listed its address, until a reset ([EDGE.md](EDGE.md#refused-before-it-costs)).", "with a rule for a flood, 50 requests a second to `$DISTRIBUTION_URL/api/v1/search` for a minute get refusals with `Weir-Edge: refused`, the first one within `EDGE_DELAY`. After `weir reset ip:… --store … --edge-list …`, there are none for some seconds. `aws cloudfront test-function --stage LIVE` with the longest path prints a `ComputeUtilization` far below 100, at which CloudFront ends the function"),
	byHand("denied-price", "A refused request costs what [COSTS.md](COSTS.md) states.", "Cost Explorer, a day after `for i in $(seq 100000); do curl -so /dev/null $URL/api/v1/search; done`"),
	byHand("rules-rollback", "CloudFormation publishes the previous rules when it rolls an update back.", "`make deploy` with a changed rule and a resource that fails; then the dashboard's third row, and `curl -i`"),
	byHand("publisher-policy", "The policy of a publisher of rules is sufficient.", "publish rules with a role that has this policy"),
	byHand("attached", "Limits work on an imported API, and on one from OpenAPI ([ATTACH.md](ATTACH.md)).", "a deployment of each, then `curl -i` until the limit refuses"),
	byHand("latency", "Latencies and cold starts are as in the [benchmarks](../local/lab/BENCHMARKS.md) plus the network.", "the dashboard's second row under load"),
}

func byHand(id, claim, hand string) Row {
	return Row{ID: id, Claim: claim, Hand: hand, Needs: []Need{NeedPerson}}
}
