package account

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/telemetry"
	"github.com/weir-limits/weir/local/verify"
)

// recent is how long before the run a test reads logs and metrics.
const recent = time.Hour

// metricReads is the number of reads of a metric, 15 s apart. CloudWatch shows a new metric after minutes.
const metricReads = 20

// latest is the end of a search. The clock of AWS can be ahead of the clock of this machine.
func latest() time.Time { return time.Now().Add(recent) }

// count is the sum of a metric. CloudWatch has one value for each minute.
type count struct {
	now    float64 // since the minute in which the run began
	before float64 // in the hour before that minute
	// first is the time of the first value, and last that of the last one that is not 0. lastBefore is last before the run.
	first, last, lastBefore time.Time
}

func (c count) sinceRun() float64 { return c.now }

func (c count) sinceHour() float64 { return c.now + c.before }

// warning describes the count before the run, or is "".
func (c count) warning(what string) string {
	if c.before == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f %s before this run, the last at %s UTC", c.before, what, clock(c.lastBefore))
}

// clock returns a time of the day as text. A public report keeps this text, but would remove a date.
func clock(t time.Time) string { return t.UTC().Format("15:04") }

// count reads a metric once.
func (s *Stack) count(ctx context.Context, namespace, metric string, dimensions ...types.Dimension) (c count) {
	if s.err != nil {
		return c
	}
	began := s.began.Truncate(time.Minute)
	out, err := s.watch.GetMetricStatistics(ctx, &cloudwatch.GetMetricStatisticsInput{
		Namespace: &namespace, MetricName: &metric, Dimensions: dimensions, Statistics: []types.Statistic{types.StatisticSum},
		StartTime: aws.Time(began.Add(-recent)), EndTime: aws.Time(latest()), Period: aws.Int32(60),
	})
	if err != nil {
		s.keep(fmt.Errorf("metric %s: %w", metric, err))
		return c
	}
	slices.SortFunc(out.Datapoints, func(a, b types.Datapoint) int { return aws.ToTime(a.Timestamp).Compare(aws.ToTime(b.Timestamp)) })
	for i, p := range out.Datapoints {
		at, value := aws.ToTime(p.Timestamp), aws.ToFloat64(p.Sum)
		if i == 0 {
			c.first = at
		}
		if value != 0 {
			c.last = at
		}
		if at.Before(began) {
			c.before, c.lastBefore = c.before+value, c.last
		} else {
			c.now += value
		}
	}
	return c
}

// await reads a metric until a part of its count is not 0, such as count.sinceRun.
func (s *Stack) await(ctx context.Context, part func(count) float64, namespace, metric string, dimensions ...types.Dimension) (c count) {
	for range metricReads {
		if c = s.count(ctx, namespace, metric, dimensions...); part(c) > 0 || !s.pause(ctx, 15*time.Second) {
			return c
		}
	}
	return c
}

// ofFunction is the dimension of a function in AWS/Lambda.
func ofFunction(f Resource) types.Dimension {
	return types.Dimension{Name: aws.String("FunctionName"), Value: &f.Physical}
}

func (s *Stack) namespace() string {
	return telemetry.Namespace(s.setting(contract.VariableNamespace))
}

// metricsArrive tests that CloudWatch reads the metrics in the functions' logs.
func (s *Stack) metricsArrive(ctx context.Context) verify.Observation {
	c := s.await(ctx, count.sinceHour, s.namespace(), telemetry.Allowed)
	return verdict("the metric "+telemetry.Allowed, fmt.Sprintf("%s = %.0f", telemetry.Allowed, c.sinceHour()),
		problem(c.sinceHour() == 0, "no data of the metric %s; send a request within the last hour, and check the function's log", telemetry.Allowed))
}

var search = regexp.MustCompile(`SEARCH\('[^']*', '[^']*'\)`)

func (s *Stack) dashboardSearch(ctx context.Context) verify.Observation {
	dashboards := s.of("AWS::CloudWatch::Dashboard")
	if len(dashboards) == 0 {
		return skipped("the stack has no dashboard")
	}
	out, err := s.watch.GetDashboard(ctx, &cloudwatch.GetDashboardInput{DashboardName: &dashboards[0].Physical})
	if !s.keep(err) {
		return verify.Observation{}
	}
	var body any
	if err := json.Unmarshal([]byte(aws.ToString(out.DashboardBody)), &body); err != nil {
		s.keep(fmt.Errorf("dashboard: %w", err))
		return verify.Observation{}
	}
	expressions := slices.DeleteFunc(expressionsIn(body), func(e string) bool { return !strings.Contains(e, telemetry.RuleRefused) })
	if len(expressions) == 0 {
		return verdict("a SEARCH for "+telemetry.RuleRefused, "", []string{"the dashboard has no SEARCH for this metric"})
	}
	if s.count(ctx, s.namespace(), telemetry.Refused).sinceHour() == 0 {
		return skipped("the metric " + telemetry.Refused + " has no data yet; exceed a limit and wait a few minutes")
	}
	now := time.Now()
	found, err := s.watch.GetMetricData(ctx, &cloudwatch.GetMetricDataInput{
		StartTime: aws.Time(now.Add(-recent)), EndTime: aws.Time(now),
		MetricDataQueries: []types.MetricDataQuery{{Id: aws.String("search"), Expression: aws.String(expressions[0]), Period: aws.Int32(60)}},
	})
	if !s.keep(err) {
		return verify.Observation{}
	}
	return verdict("metrics that the SEARCH finds", fmt.Sprintf("%d metrics", len(found.MetricDataResults)), problem(len(found.MetricDataResults) == 0, "%s: finds no metric", expressions[0]))
}

func expressionsIn(v any) (all []string) {
	switch v := v.(type) {
	case string:
		return search.FindAllString(v, -1)
	case []any:
		for _, each := range v {
			all = append(all, expressionsIn(each)...)
		}
	case map[string]any:
		for _, key := range sorted(v) {
			all = append(all, expressionsIn(v[key])...)
		}
	}
	return all
}

// signingKeysWritten tests that the last run of the function SigningKeys wrote its item.
func (s *Stack) signingKeysWritten(ctx context.Context) verify.Observation {
	f, ok := s.function(contract.SigningKeys)
	if !ok {
		return skipped("the stack has no function SigningKeys; deploy it with store=elasticache and an issuer")
	}
	runs := s.await(ctx, count.sinceHour, lambdaMetrics, "Invocations", ofFunction(f))
	failed := s.count(ctx, lambdaMetrics, "Errors", ofFunction(f))
	o := verdict("a last invocation without an error", fmt.Sprintf("%.0f invocations", runs.sinceHour()), problem(runs.sinceHour() == 0 || failed.sinceHour() > 0 && !failed.last.Before(runs.last),
		"%s: %.0f of %.0f invocations failed, among them the last", f.ID, failed.sinceHour(), runs.sinceHour()))
	if o.Outcome == verify.Pass && failed.sinceHour() > 0 {
		o.Warning = fmt.Sprintf("%.0f invocations failed, the last at %s UTC", failed.sinceHour(), clock(failed.last))
	}
	return o
}

// maxDegraded is the share of degraded decisions that shows a failed login. A smaller share can have other
// causes: the first calls of new environments, and single later calls, can be late.
const maxDegraded = 0.1

// cacheLogin tests that functions log in to the cache: the cache must decide the requests of this run.
func (s *Stack) cacheLogin(ctx context.Context) verify.Observation {
	if s.setting(contract.VariableStore) != contract.StoreRedis {
		return skipped("the store is DynamoDB; deploy the stack with store=elasticache")
	}
	allowed := s.await(ctx, count.sinceRun, s.namespace(), telemetry.Allowed)
	refused, degraded := s.count(ctx, s.namespace(), telemetry.Refused), s.count(ctx, s.namespace(), telemetry.Degraded)
	decisions := allowed.now + refused.now
	if decisions+degraded.now == 0 && allowed.before > 0 {
		return skipped("no decision since this run began")
	}
	problems := problem(decisions == 0 || degraded.now > maxDegraded*decisions, "%.0f of %.0f decisions without the store", degraded.now, decisions)
	if len(problems) > 0 {
		problems = append(s.search(ctx, s.logsOf(s.weirFunctions()), `"store failed"`, s.began, latest()).texts, problems...)
	}
	o := verdict("decisions by the cache", fmt.Sprintf("%.0f decisions, %.0f of them degraded", decisions, degraded.now), problems)
	o.Warning = degraded.warning("degraded decisions")
	return o
}
