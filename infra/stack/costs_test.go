package stack_test

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/infra/stack"
	"github.com/weir-limits/weir/limiter/rules"
)

// Dollars in us-east-1 for a million requests, from the first table of infra/COSTS.md.
const (
	costWrite, costScript = 0.63, 0.007                                      // of a decision by DynamoDB and by ElastiCache
	costREST, costHTTP    = 5.05 - 3.50 - costWrite, 2.30 - 1.00 - costWrite // without API Gateway and the store
	costShared            = 0.30                                             // less with much traffic, because requests share a log line
)

// tier is the price of a million requests up to a number of million requests a month.
type tier struct{ upTo, price float64 }

var (
	restTiers = []tier{{333, 3.50}, {1_000, 2.80}, {20_000, 2.38}, {math.Inf(1), 1.51}}
	httpTiers = []tier{{300, 1.00}, {math.Inf(1), 0.90}}
)

func priceOf(tiers []tier, million float64) (dollars float64) {
	from := 0.0
	for _, t := range tiers {
		dollars += max(0, min(million, t.upTo)-from) * t.price
		from = t.upTo
	}
	return dollars
}

func describe(tiers []tier) string {
	var all []string
	for i, t := range tiers {
		text := fmt.Sprintf("$%.2f above", t.price)
		if i < len(tiers)-1 {
			text = fmt.Sprintf("$%.2f up to %s M", t.price, grouped(t.upTo))
		}
		all = append(all, text)
	}
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " and " + all[last]
}

// grouped returns a number below a million with a comma.
func grouped(n float64) string {
	if n < 1000 {
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.0f,%03.0f", math.Floor(math.Round(n)/1000), math.Mod(math.Round(n), 1000))
}

// perMonth is a million requests a month for each request a second. A month has 730 hours.
const perMonth = 730 * 3600 / 1e6

// month is the cost of a month: the columns of the table in infra/COSTS.md.
type month struct {
	fixed, other float64 // a month, and a million requests without API Gateway
	tiers        []tier
}

// at returns the cost of million requests, of which many share a log line.
func (m month) at(million float64) float64 {
	return m.fixed + priceOf(m.tiers, million) + million*(m.other-costShared)
}

// infra/COSTS.md computes monthly costs from the number of metrics and AWS's prices; README.md has
// the same totals.
func TestCOSTS(t *testing.T) {
	const (
		alarmMetric, metric, dashboard = 0.1, 0.3, 3
		storage                        = 6.13 // dollars per month for the storage of the smallest cache
	)
	fixed := func(change func(*stack.Settings)) float64 {
		_, alarms := templateOf(t, change).of("AWS::CloudWatch::Alarm")
		paid := 0
		for _, a := range alarms {
			paid += len(metricsOf(a.Properties))
		}
		return alarmMetric*float64(paid) + dashboard
	}
	table, elastic := fixed(variants["dynamodb"]), fixed(variants["elasticache"])+storage
	shipped, err := rules.Parse([]byte(read(t, "../../functions/rules.json")), rules.Options{Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	// totals is the number of metrics without a rule. It includes AuthorizerFailed, which a metric filter writes. It
	// excludes the metrics of limits with count, because the repository's rules have no such limit.
	totals := 1 + len(slices.DeleteFunc(written(), func(name string) bool {
		return strings.Contains(name, " ") ||
			slices.Contains(ofCount, name)
	}))
	count := totals + 2*len(shipped.Labels())
	metrics := metric * float64(count)
	columns := []month{
		{table + metrics, costREST + costWrite, restTiers}, {table + metrics, costHTTP + costWrite, httpTiers},
		{elastic + metrics, costREST + costScript, restTiers}, {elastic + metrics, costHTTP + costScript, httpTiers},
	}
	first := func(i int) float64 { return columns[i].at(1) + costShared }
	cells := func(million float64, from int) (text string) {
		for _, m := range columns[from:] {
			text += fmt.Sprintf(" %s |", grouped(m.at(million)))
		}
		return text
	}
	const saved = 0.625 - 3*0.0023 // by a million decisions of ElastiCache, without the rounding of the table
	even := (elastic - table) / saved
	page := strings.Join(strings.Fields(read(t, "../COSTS.md")), " ")
	for _, want := range []string{
		fmt.Sprintf("up to %d metrics at $0.30", totals),
		fmt.Sprintf("up to %d metrics, which cost $%.2f", count, metrics),
		fmt.Sprintf("| 0 requests | %.2f | %.2f | %.2f | %.2f |", table, table, elastic, elastic),
		fmt.Sprintf("| 1 M | %.2f + %.2f + %.2f = %.0f | %.0f | %.0f | %.0f |", table, metrics, priceOf(restTiers, 1)+costREST+costWrite,
			first(0), first(1), first(2), first(3)),
		fmt.Sprintf("| 100 M | %.2f + 100 × %.2f = %.0f |%s", columns[0].fixed, columns[0].at(1)-columns[0].fixed, columns[0].at(100),
			cells(100, 1)),
		fmt.Sprintf("| %s M: 100 a second |%s", grouped(100*perMonth), cells(100*perMonth, 0)),
		fmt.Sprintf("| %s M: 1,000 a second |%s", grouped(1000*perMonth), cells(1000*perMonth, 0)),
		fmt.Sprintf("A million requests of a REST API cost %s", describe(restTiers)),
		fmt.Sprintf("of an HTTP API %s", describe(httpTiers)),
		fmt.Sprintf("ElastiCache costs $%.2f a month more, and $%.3f less for each million decisions", elastic-table, saved),
		fmt.Sprintf("above %.0f million decisions a month, which is %.0f a second", even, even/perMonth),
	} {
		if !strings.Contains(page, want) {
			t.Errorf("infra/COSTS.md: got no text %q, want it", want)
		}
	}
	for _, figure := range dollars.FindAllStringSubmatch(read(t, "../../README.md"), -1) {
		if !regexp.MustCompile(`(^|[^0-9.])` + regexp.QuoteMeta(figure[1]) + `($|[^0-9.])`).MatchString(page) {
			t.Errorf("README.md: got $%s, want a sum of infra/COSTS.md", figure[1])
		}
	}
}

// dollars matches a bold amount such as **$6.13**.
var dollars = regexp.MustCompile(`\*\*\$([0-9.]+)[^*]*\*\*`)
