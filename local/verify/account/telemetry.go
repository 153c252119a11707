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

// data returns the data of a metric from one time to another: a sum for each minute, in order.
func (s *Stack) data(ctx context.Context, from, to time.Time, namespace, metric string, dimensions ...types.Dimension) ([]types.Datapoint, error) {
	out, err := s.watch.GetMetricStatistics(ctx, &cloudwatch.GetMetricStatisticsInput{
		Namespace: &namespace, MetricName: &metric, Dimensions: dimensions, Statistics: []types.Statistic{types.StatisticSum},
		StartTime: &from, EndTime: &to, Period: aws.Int32(60),
	})
	if err != nil {
		return nil, fmt.Errorf("metric %s: %w", metric, err)
	}
	slices.SortFunc(out.Datapoints, func(a, b types.Datapoint) int { return aws.ToTime(a.Timestamp).Compare(aws.ToTime(b.Timestamp)) })
	return out.Datapoints, nil
}

// latest is the end of a search. The clock of AWS can be ahead of the clock of this machine.
func latest() time.Time { return time.Now().Add(recent) }

func sum(points []types.Datapoint) (total float64) {
	for _, p := range points {
		total += aws.ToFloat64(p.Sum)
	}
	return total
}

// last returns the time of the last data that are not 0.
func last(points []types.Datapoint) (t time.Time) {
	for _, p := range points {
		if aws.ToFloat64(p.Sum) != 0 {
			t = aws.ToTime(p.Timestamp)
		}
	}
	return t
}

// count is the sum of a metric. CloudWatch has one value for each minute.
type count struct {
	now    float64 // since the minute in which the run began
	before float64 // in the hour before that minute
	last   time.Time
}

// warning describes the count before the run, or is "".
func (c count) warning(what string) string {
	if c.before == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f %s before this run, the last at %s UTC", c.before, what, clock(c.last))
}

// clock returns a time of the day as text. A public report keeps this text, but would remove a date.
func clock(t time.Time) string { return t.UTC().Format("15:04") }

// count reads a metric once.
func (s *Stack) count(ctx context.Context, namespace, metric string, dimensions ...types.Dimension) (c count, err error) {
	began := s.began.Truncate(time.Minute)
	points, err := s.data(ctx, began, latest(), namespace, metric, dimensions...)
	if err != nil {
		return c, err
	}
	earlier, err := s.data(ctx, began.Add(-recent), began, namespace, metric, dimensions...)
	return count{sum(points), sum(earlier), last(earlier)}, err
}

// await reads a metric until it has a value since the run began.
func (s *Stack) await(ctx context.Context, namespace, metric string, dimensions ...types.Dimension) (c count, err error) {
	for range metricReads {
		if c, err = s.count(ctx, namespace, metric, dimensions...); err != nil || c.now > 0 {
			return c, err
		}
		if err := s.Wait(ctx, 15*time.Second); err != nil {
			return c, err
		}
	}
	return c, nil
}

// recent returns the data of a metric since an hour before the run.
func (s *Stack) recent(ctx context.Context, namespace, metric string, dimensions ...types.Dimension) ([]types.Datapoint, error) {
	return s.data(ctx, s.began.Add(-recent), latest(), namespace, metric, dimensions...)
}

// awaitRecent reads a metric until it has a value since an hour before the run.
func (s *Stack) awaitRecent(ctx context.Context, namespace, metric string, dimensions ...types.Dimension) (points []types.Datapoint, err error) {
	for range metricReads {
		if points, err = s.recent(ctx, namespace, metric, dimensions...); err != nil || sum(points) > 0 {
			return points, err
		}
		if err := s.Wait(ctx, 15*time.Second); err != nil {
			return nil, err
		}
	}
	return points, nil
}

func (s *Stack) namespace() string {
	return telemetry.Namespace(s.setting(contract.VariableNamespace))
}

// metricsArrive tests that CloudWatch reads the metrics in the functions' logs.
func (s *Stack) metricsArrive(ctx context.Context) (verify.Observation, error) {
	points, err := s.awaitRecent(ctx, s.namespace(), telemetry.Allowed)
	if err != nil {
		return verify.Observation{}, err
	}
	var problems []string
	if sum(points) == 0 {
		problems = append(problems, "no data of the metric "+telemetry.Allowed+"; send a request within the last hour, and check the function's log")
	}
	return verdict("the metric "+telemetry.Allowed, fmt.Sprintf("%s = %.0f", telemetry.Allowed, sum(points)), problems), nil
}

var search = regexp.MustCompile(`SEARCH\('[^']*', '[^']*'\)`)

func (s *Stack) dashboardSearch(ctx context.Context) (verify.Observation, error) {
	dashboards := s.of("AWS::CloudWatch::Dashboard")
	if len(dashboards) == 0 {
		return skipped("the stack has no dashboard"), nil
	}
	out, err := s.watch.GetDashboard(ctx, &cloudwatch.GetDashboardInput{DashboardName: &dashboards[0].Physical})
	if err != nil {
		return verify.Observation{}, err
	}
	var body any
	if err := json.Unmarshal([]byte(aws.ToString(out.DashboardBody)), &body); err != nil {
		return verify.Observation{}, fmt.Errorf("dashboard: %w", err)
	}
	expressions := slices.DeleteFunc(expressionsIn(body), func(e string) bool { return !strings.Contains(e, telemetry.RuleRefused) })
	if len(expressions) == 0 {
		return verdict("a SEARCH for "+telemetry.RuleRefused, "", []string{"the dashboard has no SEARCH for this metric"}), nil
	}
	refused, err := s.count(ctx, s.namespace(), telemetry.Refused)
	if err != nil {
		return verify.Observation{}, err
	}
	if refused.now+refused.before == 0 {
		return skipped("the metric " + telemetry.Refused + " has no data yet; exceed a limit and wait a few minutes"), nil
	}
	now := time.Now()
	found, err := s.watch.GetMetricData(ctx, &cloudwatch.GetMetricDataInput{
		StartTime: aws.Time(now.Add(-recent)), EndTime: aws.Time(now),
		MetricDataQueries: []types.MetricDataQuery{{Id: aws.String("search"), Expression: aws.String(expressions[0]), Period: aws.Int32(60)}},
	})
	if err != nil {
		return verify.Observation{}, err
	}
	var problems []string
	if len(found.MetricDataResults) == 0 {
		problems = append(problems, expressions[0]+": finds no metric")
	}
	return verdict("metrics that the SEARCH finds", fmt.Sprintf("%d metrics", len(found.MetricDataResults)), problems), nil
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
func (s *Stack) signingKeysWritten(ctx context.Context) (verify.Observation, error) {
	f, ok := s.function(contract.SigningKeys)
	if !ok {
		return skipped("the stack has no function SigningKeys; deploy it with store=elasticache and an issuer"), nil
	}
	name := types.Dimension{Name: aws.String("FunctionName"), Value: &f.Physical}
	runs, err := s.awaitRecent(ctx, "AWS/Lambda", "Invocations", name)
	if err != nil {
		return verify.Observation{}, err
	}
	failed, err := s.recent(ctx, "AWS/Lambda", "Errors", name)
	if err != nil {
		return verify.Observation{}, err
	}
	var problems []string
	if sum(runs) == 0 || sum(failed) > 0 && !last(failed).Before(last(runs)) {
		problems = append(problems, fmt.Sprintf("%s: %.0f of %.0f invocations failed, among them the last", f.ID, sum(failed), sum(runs)))
	}
	o := verdict("a last invocation without an error", fmt.Sprintf("%.0f invocations", sum(runs)), problems)
	if o.Outcome == verify.Pass && sum(failed) > 0 {
		o.Warning = fmt.Sprintf("%.0f invocations failed, the last at %s UTC", sum(failed), clock(last(failed)))
	}
	return o, nil
}

// maxDegraded is the share of degraded decisions that shows a failed login. A smaller share can have other
// causes: the first calls of new environments, and single later calls, can be late.
const maxDegraded = 0.1

// cacheLogin tests that functions log in to the cache: the cache must decide the requests of this run.
func (s *Stack) cacheLogin(ctx context.Context) (verify.Observation, error) {
	if s.setting(contract.VariableStore) != contract.StoreRedis {
		return skipped("the store is DynamoDB; deploy the stack with store=elasticache"), nil
	}
	allowed, err := s.await(ctx, s.namespace(), telemetry.Allowed)
	if err != nil {
		return verify.Observation{}, err
	}
	refused, err := s.count(ctx, s.namespace(), telemetry.Refused)
	if err != nil {
		return verify.Observation{}, err
	}
	degraded, err := s.count(ctx, s.namespace(), telemetry.Degraded)
	if err != nil {
		return verify.Observation{}, err
	}
	decisions := allowed.now + refused.now
	if decisions+degraded.now == 0 && allowed.before > 0 {
		return skipped("no decision since this run began"), nil
	}
	var problems []string
	if decisions == 0 || degraded.now > maxDegraded*decisions {
		lines, err := s.lines(ctx, s.weirFunctions(), `"store failed"`, s.began, latest())
		if err != nil {
			return verify.Observation{}, err
		}
		problems = append(problems, lines.texts...)
		problems = append(problems, fmt.Sprintf("%.0f of %.0f decisions without the store", degraded.now, decisions))
	}
	o := verdict("decisions by the cache", fmt.Sprintf("%.0f decisions, %.0f of them degraded", decisions, degraded.now), problems)
	o.Warning = degraded.warning("degraded decisions")
	return o, nil
}

func (s *Stack) eventsStream(ctx context.Context) (verify.Observation, error) {
	stream := s.setting(contract.VariableKinesisStream)
	if stream == "" {
		return skipped("the functions send no events to Kinesis; deploy the stack with events=kinesis"), nil
	}
	records, err := s.await(ctx, "AWS/Kinesis", "IncomingRecords", types.Dimension{Name: aws.String("StreamName"), Value: &stream})
	if err != nil {
		return verify.Observation{}, err
	}
	dropped, err := s.count(ctx, s.namespace(), telemetry.EventsDropped)
	if err != nil {
		return verify.Observation{}, err
	}
	if records.now+dropped.now == 0 && records.before > 0 {
		return skipped("no event since this run began"), nil
	}
	var problems []string
	if records.now == 0 || dropped.now > 0 {
		problems = append(problems, fmt.Sprintf("%.0f events in the stream, %.0f dropped", records.now, dropped.now))
	}
	o := verdict("events in the stream, none dropped", fmt.Sprintf("%.0f events", records.now), problems)
	o.Warning = dropped.warning("dropped events")
	return o, nil
}

func (s *Stack) appConfigRules(ctx context.Context) (verify.Observation, error) {
	if from := s.setting(contract.VariableRulesFrom); !strings.HasPrefix(from, contract.RulesAppConfig) {
		return skipped("the rules are not in AppConfig; deploy the stack with rulesFrom and appConfigLayer"), nil
	}
	versions, err := s.awaitRecent(ctx, s.namespace(), telemetry.RulesVersion)
	if err != nil {
		return verify.Observation{}, err
	}
	refused, err := s.count(ctx, s.namespace(), telemetry.RulesRefused)
	if err != nil {
		return verify.Observation{}, err
	}
	var problems []string
	if sum(versions) == 0 {
		problems = append(problems, "no data of the metric "+telemetry.RulesVersion)
	}
	if refused.now > 0 {
		problems = append(problems, fmt.Sprintf("%.0f rejected documents", refused.now))
	}
	o := verdict("a version of the rules, no rejected document", "as expected", problems)
	o.Warning = refused.warning("rejected documents")
	return o, nil
}
