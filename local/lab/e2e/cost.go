package e2e

import (
	"fmt"
	"io"
	"time"

	"github.com/weir-limits/weir/local/verify/account"
)

// Prices in dollars. infra/COSTS.md has their sources; TestPrices compares them.
const (
	priceRequests = 3.50  // a million requests of a REST API
	priceLambda   = 0.20  // a million invocations
	priceGBs      = 13.33 // a million GB-seconds of Lambda
	priceWrites   = 0.625 // a million writes of DynamoDB
	priceAlarm    = 0.10  // a metric in an alarm, a month
	priceMetric   = 0.30  // a metric, a month
	priceInsight  = 0.50  // a Contributor Insights rule, a month
	priceStorage  = 0.084 // a GB-hour of ElastiCache
)

// Assumptions of the estimate.
const (
	month        = 730 * time.Hour
	metrics      = 34  // of the rules of this repository
	minStorage   = 0.1 // GB that ElastiCache charges at least
	writes       = 2   // of a request
	invocations  = 2   // of a request
	invocationGB = 0.008 * 0.5
)

type cost struct{ parts []part }

type part struct {
	what    string
	dollars float64
}

// estimate returns the estimated cost of a stack that existed for a time and got a number of requests. AWS
// charges alarms, metrics and the cache by the hour.
func estimate(store string, requests int, existed time.Duration, resources []account.Resource) cost {
	million := float64(requests) / 1e6
	hours := float64(existed/time.Hour) + 1 // each hour that has begun
	monthly := hours * float64(time.Hour) / float64(month)
	c := cost{[]part{
		{fmt.Sprintf("%d requests of API Gateway and Lambda", requests), million * (priceRequests + invocations*(priceLambda+invocationGB*priceGBs))},
		{"metrics, while they have data", metrics * priceMetric * monthly},
		{"alarms", float64(alarmMetrics(resources)) * priceAlarm * monthly},
		{"the Contributor Insights rule, if AWS charges the month", priceInsight},
	}}
	if store == "elasticache" {
		c.parts = append(c.parts, part{fmt.Sprintf("%.0f hours of the smallest cache", hours), hours * minStorage * priceStorage})
	} else {
		c.parts = append(c.parts, part{"writes of DynamoDB", million * writes * priceWrites})
	}
	return c
}

func alarmMetrics(resources []account.Resource) (n int) {
	for _, r := range resources {
		if r.Type != "AWS::CloudWatch::Alarm" {
			continue
		}
		if r.Properties["MetricName"] != nil {
			n++
		}
		metrics, _ := r.Properties["Metrics"].([]any)
		for _, m := range metrics {
			if m, _ := m.(map[string]any); m["MetricStat"] != nil {
				n++
			}
		}
	}
	return n
}

func (c cost) sum() (total float64) {
	for _, p := range c.parts {
		total += p.dollars
	}
	return total
}

func (c cost) print(out io.Writer) {
	fmt.Fprintf(out, "estimated cost, with the prices of us-east-1 and without free tiers: $%.2f\n", c.sum())
	for _, p := range c.parts {
		fmt.Fprintf(out, "  %-56s $%.4f\n", p.what, p.dollars)
	}
	fmt.Fprintln(out, "  the dashboard is free among the first three of an account; otherwise it costs up to $3.00")
}
