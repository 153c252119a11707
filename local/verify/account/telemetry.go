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
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/local/verify"
)

// recent is the age of the oldest log line and the oldest metric that a test reads.
const recent = time.Hour

// metricReads is the number of reads of a metric, 15 s apart. CloudWatch shows a new metric after minutes.
const metricReads = 20

// sum returns the sum of a metric in recent time, and whether it has data.
func (s *Stack) sum(ctx context.Context, namespace, metric string, dimensions ...types.Dimension) (total float64, exists bool, err error) {
	now := time.Now()
	out, err := s.watch.GetMetricStatistics(ctx, &cloudwatch.GetMetricStatisticsInput{
		Namespace: &namespace, MetricName: &metric, Dimensions: dimensions, Statistics: []types.Statistic{types.StatisticSum},
		StartTime: aws.Time(now.Add(-recent)), EndTime: aws.Time(now.Add(time.Minute)), Period: aws.Int32(60),
	})
	if err != nil {
		return 0, false, fmt.Errorf("metric %s: %w", metric, err)
	}
	for _, p := range out.Datapoints {
		total += aws.ToFloat64(p.Sum)
	}
	return total, len(out.Datapoints) > 0, nil
}

// await reads a metric until it has data.
func (s *Stack) await(ctx context.Context, namespace, metric string, dimensions ...types.Dimension) (total float64, exists bool, err error) {
	for range metricReads {
		total, exists, err = s.sum(ctx, namespace, metric, dimensions...)
		if err != nil || exists {
			return total, exists, err
		}
		if err := s.Wait(ctx, 15*time.Second); err != nil {
			return 0, false, err
		}
	}
	return 0, false, nil
}

// namespace returns the CloudWatch namespace of the deployment.
func (s *Stack) namespace() string {
	return contract.MetricNamespace(s.setting(contract.VariableNamespace))
}

// metricsArrive tests that CloudWatch reads the metrics in the functions' logs.
func (s *Stack) metricsArrive(ctx context.Context) (verify.Observation, error) {
	total, exists, err := s.await(ctx, s.namespace(), contract.MetricAllowed)
	if err != nil {
		return verify.Observation{}, err
	}
	var problems []string
	if !exists {
		problems = append(problems, "no data of the metric "+contract.MetricAllowed+"; send a request within the last hour, and check the function's log")
	}
	return verdict("the metric "+contract.MetricAllowed, fmt.Sprintf("%s = %.0f", contract.MetricAllowed, total), problems), nil
}

// insightRule tests the Contributor Insights rule.
func (s *Stack) insightRule(ctx context.Context) (verify.Observation, error) {
	rules := s.of("AWS::CloudWatch::InsightRule")
	if len(rules) == 0 {
		return skipped("the stack has no Contributor Insights rule"), nil
	}
	deployed := map[string]types.InsightRule{}
	for in := new(cloudwatch.DescribeInsightRulesInput); ; {
		out, err := s.watch.DescribeInsightRules(ctx, in)
		if err != nil {
			return verify.Observation{}, err
		}
		for _, r := range out.InsightRules {
			deployed[aws.ToString(r.Name)] = r
		}
		if in.NextToken = out.NextToken; in.NextToken == nil {
			break
		}
	}
	var problems []string
	for _, r := range rules {
		var got types.InsightRule
		for name, rule := range deployed {
			if s.differs("", r.Properties["RuleName"], name) == "" {
				got = rule
			}
		}
		if got.Name == nil {
			problems = append(problems, r.ID+": not in CloudWatch")
			continue
		}
		problems = append(problems, s.compare(r, map[string]any{"RuleState": aws.ToString(got.State), "RuleBody": aws.ToString(got.Definition)})...)
	}
	return verdict("an enabled rule, as in the template", "enabled", problems), nil
}

var search = regexp.MustCompile(`SEARCH\('[^']*', '[^']*'\)`)

// dashboardSearch evaluates the SEARCH expressions of the dashboard.
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
	expressions := slices.DeleteFunc(expressionsIn(body), func(e string) bool { return !strings.Contains(e, contract.MetricRuleRefused) })
	if len(expressions) == 0 {
		return verdict("a SEARCH for "+contract.MetricRuleRefused, "", []string{"the dashboard has no SEARCH for this metric"}), nil
	}
	refused, _, err := s.sum(ctx, s.namespace(), contract.MetricRefused)
	if err != nil {
		return verify.Observation{}, err
	}
	if refused == 0 {
		return skipped("the metric " + contract.MetricRefused + " has no data yet; exceed a limit and wait a few minutes"), nil
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

// expressionsIn returns the SEARCH expressions in the texts of a value.
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

// logsOf returns the log groups of functions.
func (s *Stack) logsOf(functions []Resource) (groups []string) {
	for _, f := range functions {
		logging, _ := f.Properties["LoggingConfig"].(map[string]any)
		if group := s.value(logging["LogGroup"]); group != "" {
			groups = append(groups, group)
		}
	}
	return groups
}

// maxLines is the number of log lines that an observation shows.
const maxLines = 5

// lines returns recent lines of log groups that match a filter pattern.
func (s *Stack) lines(ctx context.Context, groups []string, pattern string) (found []string, err error) {
	for _, group := range groups {
		pages := cloudwatchlogs.NewFilterLogEventsPaginator(s.logs, &cloudwatchlogs.FilterLogEventsInput{
			LogGroupName: &group, FilterPattern: &pattern, StartTime: aws.Int64(time.Now().Add(-recent).UnixMilli()), Limit: aws.Int32(maxLines),
		})
		for pages.HasMorePages() && len(found) < maxLines {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, fmt.Errorf("log group: %w", err)
			}
			for _, e := range page.Events {
				found = append(found, strings.TrimSpace(aws.ToString(e.Message)))
			}
		}
	}
	return found, nil
}

// clean tests that no recent line of the functions' logs matches a pattern.
func (s *Stack) clean(ctx context.Context, functions []Resource, pattern, expected string) (verify.Observation, error) {
	groups := s.logsOf(functions)
	if len(groups) == 0 {
		return skipped("the stack has no log group of a function"), nil
	}
	found, err := s.lines(ctx, groups, pattern)
	if err != nil {
		return verify.Observation{}, err
	}
	return verdict(expected, fmt.Sprintf("none in %d logs", len(groups)), found), nil
}

func (s *Stack) logErrors(ctx context.Context) (verify.Observation, error) {
	return s.clean(ctx, s.weirFunctions(), `{ $.level = "ERROR" }`, "no line of level ERROR in the last hour")
}

func (s *Stack) logSubjectKey(ctx context.Context) (verify.Observation, error) {
	return s.clean(ctx, s.weirFunctions(), `"subject hash key not read"`, "no line: subject hash key not read")
}

// signingKeysWritten tests that the function SigningKeys has run and may write its item.
func (s *Stack) signingKeysWritten(ctx context.Context) (verify.Observation, error) {
	var f Resource
	for _, r := range s.of(functionType) {
		if variables(r)[contract.VariableFunction] == contract.SigningKeys {
			f = r
		}
	}
	if f.ID == "" {
		return skipped("the stack has no function SigningKeys; deploy it with store=elasticache and an issuer"), nil
	}
	name := types.Dimension{Name: aws.String("FunctionName"), Value: &f.Physical}
	runs, exists, err := s.await(ctx, "AWS/Lambda", "Invocations", name)
	if err != nil {
		return verify.Observation{}, err
	}
	failed, _, err := s.sum(ctx, "AWS/Lambda", "Errors", name)
	if err != nil {
		return verify.Observation{}, err
	}
	var problems []string
	if !exists || failed > 0 {
		problems = append(problems, fmt.Sprintf("%s: %.0f of %.0f invocations failed", f.ID, failed, runs))
	}
	return verdict("invocations without an error", fmt.Sprintf("%.0f invocations", runs), problems), nil
}

// cacheLogin tests that functions log in to the cache: decisions come from the store.
func (s *Stack) cacheLogin(ctx context.Context) (verify.Observation, error) {
	if s.setting(contract.VariableStore) != contract.StoreRedis {
		return skipped("the store is DynamoDB; deploy the stack with store=elasticache"), nil
	}
	allowed, exists, err := s.await(ctx, s.namespace(), contract.MetricAllowed)
	if err != nil {
		return verify.Observation{}, err
	}
	degraded, _, err := s.sum(ctx, s.namespace(), contract.MetricDegraded)
	if err != nil {
		return verify.Observation{}, err
	}
	problems, err := s.lines(ctx, s.logsOf(s.weirFunctions()), `"store failed"`)
	if err != nil {
		return verify.Observation{}, err
	}
	if !exists || degraded > 0 {
		problems = append(problems, fmt.Sprintf("%.0f of %.0f decisions without the store", degraded, allowed))
	}
	return verdict("decisions by the cache", fmt.Sprintf("%.0f decisions, none degraded", allowed), problems), nil
}

// eventsStream tests that decision events arrive in the stream of Kinesis.
func (s *Stack) eventsStream(ctx context.Context) (verify.Observation, error) {
	stream := s.setting(contract.VariableKinesisStream)
	if stream == "" {
		return skipped("the functions send no events to Kinesis; deploy the stack with events=kinesis"), nil
	}
	records, exists, err := s.await(ctx, "AWS/Kinesis", "IncomingRecords", types.Dimension{Name: aws.String("StreamName"), Value: &stream})
	if err != nil {
		return verify.Observation{}, err
	}
	dropped, _, err := s.sum(ctx, s.namespace(), contract.MetricEventsDropped)
	if err != nil {
		return verify.Observation{}, err
	}
	var problems []string
	if !exists || records == 0 || dropped > 0 {
		problems = append(problems, fmt.Sprintf("%.0f events in the stream, %.0f dropped", records, dropped))
	}
	return verdict("events in the stream, none dropped", fmt.Sprintf("%.0f events", records), problems), nil
}

// appConfigRules tests that functions read the rules from AppConfig.
func (s *Stack) appConfigRules(ctx context.Context) (verify.Observation, error) {
	if from := s.setting(contract.VariableRulesFrom); !strings.HasPrefix(from, contract.RulesAppConfig) {
		return skipped("the rules are not in AppConfig; deploy the stack with rulesFrom and appConfigLayer"), nil
	}
	version, exists, err := s.await(ctx, s.namespace(), contract.MetricRulesVersion)
	if err != nil {
		return verify.Observation{}, err
	}
	refused, _, err := s.sum(ctx, s.namespace(), contract.MetricRulesRefused)
	if err != nil {
		return verify.Observation{}, err
	}
	var problems []string
	if !exists || version == 0 || refused > 0 {
		problems = append(problems, fmt.Sprintf("the metric %s is %.0f, %s is %.0f", contract.MetricRulesVersion, version, contract.MetricRulesRefused, refused))
	}
	return verdict("a version of the rules, no rejected document", "as expected", problems), nil
}
