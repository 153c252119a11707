package ratelimit

import (
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// Alarm is an alarm on a metric with periods of one minute. All fields are required.
type Alarm struct {
	// Name follows weir-<namespace>/ in the alarm's name. A namespace can contain hyphens, but no slash, so alarms of two
	// namespaces have different names.
	Name string
	// Description says what the alarm means and what to look at first.
	Description string
	// The alarm is raised if Metric is above Above in at least Of of the last In minutes.
	Metric awscloudwatch.IMetric
	Above  float64
	Of, In float64
}

// Enough returns a percentage of [Percent] for an alarm. It is 0 in a minute with fewer than 10 requests, of which one
// would be a high percentage. requests is an expression of their number.
func Enough(percentage awscloudwatch.IMetric, requests string) awscloudwatch.IMetric {
	m := percentage.(awscloudwatch.MathExpression)
	return Percent(*m.Label(), fmt.Sprintf("IF((%s) >= 10, %s, 0)", requests, *m.Expression()), *m.UsingMetrics())
}

// Thresholds of the alarms on rates, times and percentages. Alarms on single events have theirs beside
// the description. infra/README.md lists all alarms with their remedies.
const (
	degradedPercent  = 1
	refusedPercent   = 50
	unmatchedPercent = 50
	errorsPercent    = 50  // invocations of a function; the layer's functions have errors of their own
	answersPercent   = 1   // answers of an API
	staleSeconds     = 300 // five times the interval at which environments reload the rules
	slowMilliseconds = 250
	regionsFailed    = 10 // in a minute; a connection that has to be opened can cause one
	transfersLost    = 10 // in a minute
	skewMilliseconds = 250
	// Milliseconds of the wait of a request for the store, which the functions measure: half of the timeout of a call to
	// DynamoDB, and of a call to the cache. AWS's own metrics do not include the network, and those of a cache may not include
	// scripts.
	tableSlow = 50
	cacheSlow = 25
)

// NewAlarm creates an alarm in scope that runs [LimitsProps].AlarmAction. A minute without data is
// good, because it had no request. A second alarm with the same name gets a number, because names are unique in an
// account.
func (l *Limits) NewAlarm(scope constructs.Construct, a Alarm) awscloudwatch.Alarm {
	l.alarms[a.Name]++
	if l.alarms[a.Name] > 1 {
		a.Name = fmt.Sprintf("%s-%d", a.Name, l.alarms[a.Name])
	}
	alarm := awscloudwatch.NewAlarm(scope, jsii.String("Alarm-"+a.Name), &awscloudwatch.AlarmProps{
		AlarmName:        jsii.String("weir-" + l.props.Namespace + "/" + a.Name),
		AlarmDescription: jsii.String(a.Description),
		Metric:           a.Metric, Threshold: jsii.Number(a.Above),
		ComparisonOperator: awscloudwatch.ComparisonOperator_GREATER_THAN_THRESHOLD,
		DatapointsToAlarm:  jsii.Number(a.Of), EvaluationPeriods: jsii.Number(a.In),
		TreatMissingData: awscloudwatch.TreatMissingData_NOT_BREACHING,
	})
	if l.props.AlarmAction != nil {
		alarm.AddAlarmAction(l.props.AlarmAction)
		alarm.AddOkAction(l.props.AlarmAction)
	}
	return alarm
}

// addAlarms creates alarms in the construct of the limits.
func (l *Limits) addAlarms(all ...Alarm) {
	for _, a := range all {
		l.NewAlarm(l, a)
	}
}

func (l *Limits) newAlarms() {
	m := l.metrics
	l.addAlarms(
		Alarm{"degraded", "More than 1 % of requests are decided without the store, by on_error of their rules. The store fails or is slow. " +
			"Look at the store-* alarms, then at 'store failed' in the functions' logs.", Enough(m.Degraded(), all), degradedPercent, 3, 5},
		Alarm{"refused", "More than 50 % of requests are refused. The cause is an attack, a client in a loop, or a rule that is too strict. " +
			"The saved query weir-<stage>/who-is-limited shows the callers and limits.", Enough(m.Refused(), decided), refusedPercent, 10, 15},
		Alarm{"failed", "Requests could not be decided. They got 5xx, or passed in a function with the layer. Keys or the issuer cannot be " +
			"read, or the store fails and on_error is deny. The functions' logs name the reason.", m.Metric(telemetry.Failed, "Sum"), 0, 2, 5},
		Alarm{"rules-refused", "A rules document has mistakes. The previous document stays in force, and no environment starts with the new " +
			"one. Correct it (make check) and publish it again. Each environment counts the mistakes once, so the alarm ends a minute later; " +
			"rules-stale lasts until the document is corrected.", m.Metric(telemetry.RulesRefused, "Sum"), 0, 1, 1},
		Alarm{"rules-stale", "For 300 seconds no environment could confirm its rules. Their source cannot be read, or its document was " +
			"rejected. The previous rules stay in force, or those of the bundle. The functions' logs name the reason.", m.Metric(telemetry.RulesAge,
			"Minimum"), staleSeconds, 3, 5},
		Alarm{"clock-skew", "The clock of an environment differs from the store's by more than 250 ms. Buckets that fill faster than that " +
			"refuse other callers, or admit too much. Lambda synchronizes its clocks, so look for an environment of your own.",
			m.Metric(telemetry.ClockSkew, "Maximum"), skewMilliseconds, 3, 5},
	)
	// If a rule matches every request, the metric is always 0.
	if !l.props.found.MatchesAll || l.props.RulesFrom != "" {
		l.NewAlarm(l, Alarm{"unmatched", "No rule matches more than 50 % of requests, so they are not limited. Was a base path, a domain or a " +
			"prefix of routes added? List paths that need no limit in exempt. See 'No rule matches requests' in infra/OPERATIONS.md.",
			Enough(m.Unmatched(), decided),
			unmatchedPercent, 10, 15})
	}
	if l.props.fronted() {
		l.NewAlarm(l, Alarm{"addresses-not-found", "Requests lack the secret of the distribution or the proxy, or the address of the " +
			"client. If they come through it, limits by address count all clients of a server together; others went to the API directly. The " +
			"functions' logs name the reason.", m.Metric(telemetry.AddressesNotFound, "Sum"), 0, 2, 5})
	}
	if l.props.Regions != nil {
		l.NewAlarm(l, Alarm{"regions-failed", "Requests that need share of another region get no answer from it in time. Meanwhile this " +
			"region admits its own share of the limits that regions share. Look at the AWS Health Dashboard, and whether the stack of each " +
			"region exists. See 'A region fails' in infra/OPERATIONS.md.", m.Metric(telemetry.RegionsFailed, "Sum"), regionsFailed, 3, 5})
		l.NewAlarm(l, Alarm{"share-lost", "Answers between regions are lost. What they moved counts as used until the window ends, so limits " +
			"admit less than they could. The cause is the network between the regions, or the table of counters of one of them.",
			m.Metric(telemetry.TransfersLost, "Sum"), transfersLost, 3, 5})
	}
	l.state.alarms(l)
}

// newFunctionAlarms adds the alarms on a function that makes decisions.
func (l *Limits) newFunctionAlarms(id string, f awslambda.Function, role string) {
	name := strings.ToLower(id)
	var transfer time.Duration
	if l.props.Regions != nil {
		transfer = limiter.TransferTimeout
	}
	l.newErrorsAlarm(l, id, f, role == contract.Authorizer)
	l.addAlarms(
		Alarm{name + "-throttled", "Lambda throttles the function, and callers get 5xx. Raise the account's concurrency or the reserved " +
			"concurrency, or lower the throttle.", LambdaMetric(f, "Throttles", "Sum"), 0, 1, 5},
		Alarm{name + "-slow", "One in a hundred invocations is slow. Look at store-slow, then at cold starts on the dashboard.",
			LambdaMetric(f, "Duration", "p99"), slowMilliseconds + float64((l.props.MaxDelay + transfer).Milliseconds()), 5, 5},
	)
}

// alarmID returns the name of a function or an API in the names of alarms: its construct's path with a hash, because
// constructs of two scopes or stacks can have the same id, and names of alarms are unique in an account.
func alarmID(c constructs.IConstruct) string {
	return *awscdk.Names_UniqueResourceName(c, &awscdk.UniqueResourceNameOptions{Separator: jsii.String("-"), MaxLength: jsii.Number(100)})
}

// newErrorsAlarm adds the alarm on a function that cannot start, crashes or times out. Lambda counts a failed start as
// an error of the invocation. rejects means that the function answers a bad credential with an error, as the authorizer
// of a REST API must. The alarm subtracts those errors, so that clients cannot raise it. It subtracts only those of this
// function: another function answers 401 without an error, which must not hide an error of this one.
func (l *Limits) newErrorsAlarm(scope constructs.Construct, id string, f awslambda.IFunction, rejects bool) {
	expression, using := "100 * errors / invocations", map[string]awscloudwatch.IMetric{
		"errors": LambdaMetric(f, "Errors", "Sum"), "invocations": LambdaMetric(f, "Invocations", "Sum"),
	}
	if rejects {
		expression = "100 * (errors - FILL(unauthorized, 0)) / invocations"
		using["unauthorized"] = Metric(l.metrics.namespace, telemetry.Unauthorized, "Sum",
			map[string]*string{telemetry.FunctionDimension: f.FunctionName()})
	}
	l.NewAlarm(scope, Alarm{strings.ToLower(id) + "-errors", "More than 50 % of the function's invocations fail, and callers get 5xx: it " +
		"cannot start, crashes or times out. Look at the function's log. Bad credentials do not count.", Enough(Percent("Failed invocations, %",
		expression, using), "invocations"), errorsPercent, 3, 5})
}

// WatchAccessLog reads the access log of a REST API's stage, in JSON with [Limits.AccessLogFields]. It adds the alarm
// authorizer-failed in scope: API Gateway got no answer from the authorizer, for any reason and even once. All access logs
// write one metric, so only the first call adds the alarm. If the rules have limits that count failures or bytes, and the
// back end is foreign, the lines also charge these limits, so that the back end needs no code for them.
func (l *Limits) WatchAccessLog(scope constructs.Construct, logs awslogs.ILogGroup) {
	const name, alarm = "AuthorizerFailed", "authorizer-failed"
	var other string
	if scope.Node().TryFindChild(jsii.String(name)) != nil { // a scope can have the access logs of several APIs
		other = *awscdk.Names_NodeUniqueId(logs.Node())
	}
	filter := awslogs.NewMetricFilter(scope, jsii.String(name+other), &awslogs.MetricFilterProps{
		LogGroup:        logs,
		FilterPattern:   awslogs.FilterPattern_StringValue(jsii.String("$."+responseTypeField), jsii.String("="), jsii.String("AUTHORIZER_*")),
		MetricNamespace: jsii.String(l.metrics.namespace), MetricName: jsii.String(name), MetricValue: jsii.String("1"),
	})
	if l.props.reporting().CountsFromLog {
		subscribe(scope, "Report"+other, logs, l.log, awslogs.FilterPattern_StringValue(jsii.String("$."+contract.LogReport),
			jsii.String("!="), jsii.String(absent)))
	}
	if l.alarms[alarm] > 0 {
		return
	}
	l.NewAlarm(scope, Alarm{alarm, "API Gateway got no answer from the authorizer and answered 503. The cause is a crash, a timeout or " +
		"throttling. Look at authorizer-throttled, then at the authorizer's log. Bad credentials get 401 and do not count.",
		filter.Metric(&awscloudwatch.MetricOptions{Statistic: jsii.String("Sum"), Period: awscdk.Duration_Minutes(jsii.Number(1))}), 0, 2, 5})
}

// LambdaMetric returns one of AWS's metrics of a function.
func LambdaMetric(f awslambda.IFunction, name, statistic string) awscloudwatch.IMetric {
	return Metric("AWS/Lambda", name, statistic, map[string]*string{"FunctionName": f.FunctionName()})
}

func (t table) alarms(l *Limits) {
	// Alarms on metrics of AWS/DynamoDB keep their state while data are missing, whatever TreatMissingData is.
	// DynamoDB writes this metric only while it throttles, so without FILL the alarm would never end:
	// https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html
	throttled := awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
		Label: jsii.String("Throttled writes"), Expression: jsii.String("FILL(throttled, 0)"), Period: awscdk.Duration_Minutes(jsii.Number(1)),
		UsingMetrics: &map[string]awscloudwatch.IMetric{"throttled": Metric("AWS/DynamoDB", "WriteThrottleEvents", "Sum",
			map[string]*string{"TableName": t.TableName()})},
	})
	l.addAlarms(
		Alarm{"store-throttled", "DynamoDB throttles writes. Either one item gets more than 1,000 a second (give its limit a lease or " +
			"shards), or the table gets more than its warm throughput (see 'Throughput of the table' in infra/README.md).", throttled, 0, 2, 5},
		Alarm{"store-slow", "DynamoDB is slow. Above 100 ms a request is decided without it, by on_error. See the AWS Health Dashboard, and " +
			"cold starts on the dashboard.", l.metrics.Metric(telemetry.StoreLatency, "p99"), tableSlow, 5, 5},
	)
}

// The guide of ElastiCache names no dimension of a serverless cache. CloudWatch lists clusterId, not ServerlessCacheName:
// https://github.com/open-constructs/aws-cdk-library/pull/68.
func (c *cache) alarms(l *Limits) {
	metric := func(name string) awscloudwatch.IMetric {
		return Metric("AWS/ElastiCache", name, "Sum", map[string]*string{"clusterId": c.cache.ServerlessCacheName()})
	}
	l.addAlarms(
		Alarm{"store-throttled",
			"The cache throttles commands, because it uses its maximum of ECPUs a second. Raise CacheECPUs of the construct.",
			metric("ThrottledCmds"), 0, 2, 5},
		Alarm{"store-slow", "The cache is slow. Above 50 ms a request is decided without it, by on_error. See store-throttled, the AWS Health " +
			"Dashboard, and cold starts on the dashboard.", l.metrics.Metric(telemetry.StoreLatency, "p99"), cacheSlow, 5, 5},
		Alarm{"store-evicts", "The cache is full and evicts counts. The callers of these counts start with a full quota. Raise CacheGigabytes " +
			"of the construct.", metric("Evictions"), 0, 1, 5},
		Alarm{"store-authentication", "The cache rejects logins. The functions' role lacks elasticache:Connect, or the cache's user or user " +
			"group was changed. Requests are decided by on_error. Deploy again to restore them.", metric("AuthenticationFailures"), 0, 2, 5},
		Alarm{"store-iam-throttled", "IAM throttles logins to the cache, because too many connections open at once. Look at the concurrency " +
			"of the functions, and lower throttle.", metric("IamAuthenticationThrottling"), 0, 2, 5},
		Alarm{"store-denied", "The cache's user has no permission for a command that the functions call. Its access string was changed, or is " +
			"older than the functions. Deploy again.", metric("CommandAuthorizationFailures"), 0, 1, 5},
	)
}
