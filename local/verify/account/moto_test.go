package account_test

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/apigateway"
	"github.com/aws/aws-sdk-go-v2/service/apigatewayv2"
	webs "github.com/aws/aws-sdk-go-v2/service/apigatewayv2/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/schemas"
	watch "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	functions "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/aws/smithy-go/transport/http/protocol/awsquery"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/functions/rulestore"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/verify"
)

// moto is an account of the emulator Moto, in which a test creates resources.
type moto struct {
	*testing.T
	aws.Config
}

func newMoto(t *testing.T) moto {
	t.Helper()
	address := storetest.Server(t, "moto", "MOTO_ENDPOINT")
	c := aws.Config{Region: "us-east-1", BaseEndpoint: &address, Credentials: credentials.NewStaticCredentialsProvider("AKIAEXAMPLE", "secret", "")}
	c.APIOptions = append(c.APIOptions, smithyhttp.SetHeaderValue("X-Moto-Account-Id", fmt.Sprintf("%012d", rand.Uint64N(1e12))))
	return moto{t, c}
}

func (m moto) check(errs ...error) {
	m.Helper()
	for _, err := range errs {
		if err != nil {
			m.Fatal(err)
		}
	}
}

// createWatched creates the alarms, metrics, logs and the dashboard of a cloud.
func (m moto) createWatched(c *cloud) {
	client := cloudwatch.NewFromConfig(m.Config, func(o *cloudwatch.Options) { o.Protocol = awsquery.New(schemas.GraniteServiceVersion20100801) })
	for _, a := range c.alarms {
		_, err := client.PutMetricAlarm(m.Context(), &cloudwatch.PutMetricAlarmInput{
			AlarmName: a.AlarmName, AlarmActions: a.AlarmActions, ActionsEnabled: a.ActionsEnabled, Namespace: a.Namespace, MetricName: a.MetricName, Dimensions: a.Dimensions, Metrics: a.Metrics,
			ComparisonOperator: watch.ComparisonOperatorGreaterThanThreshold, Threshold: aws.Float64(1), EvaluationPeriods: aws.Int32(1),
		})
		m.check(err)
	}
	for _, p := range c.points {
		_, err := client.PutMetricData(m.Context(), &cloudwatch.PutMetricDataInput{Namespace: &p.namespace, MetricData: []watch.MetricDatum{{MetricName: &p.name, Value: &p.value, Timestamp: &p.at, Dimensions: dimensions(p.dimension)}}})
		m.check(err)
	}
	_, err := client.PutDashboard(m.Context(), &cloudwatch.PutDashboardInput{DashboardName: aws.String(physical("Dashboard")), DashboardBody: &c.dashboard})
	m.check(err)
	writer, stream := cloudwatchlogs.NewFromConfig(m.Config), "stream"
	for _, group := range []string{physical("Log"), physical("AccessLog")} {
		_, err := writer.CreateLogGroup(m.Context(), &cloudwatchlogs.CreateLogGroupInput{LogGroupName: &group})
		_, second := writer.CreateLogStream(m.Context(), &cloudwatchlogs.CreateLogStreamInput{LogGroupName: &group, LogStreamName: &stream})
		m.check(err, second)
	}
	for _, l := range c.lines {
		_, err := writer.PutLogEvents(m.Context(), &cloudwatchlogs.PutLogEventsInput{LogGroupName: &l.group, LogStreamName: &stream, LogEvents: []logs.InputLogEvent{{Message: &l.text, Timestamp: aws.Int64(l.at.UnixMilli())}}})
		m.check(err)
	}
}

// createFunctions creates the functions, their role and its policies.
func (m moto) createFunctions(c *cloud) {
	client, name := iam.NewFromConfig(m.Config), physical("Role")
	role, err := client.CreateRole(m.Context(), &iam.CreateRoleInput{RoleName: &name, AssumeRolePolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"lambda.amazonaws.com"},"Action":"sts:AssumeRole"}]}`)})
	m.check(err)
	for policy, document := range c.policies {
		_, err := client.PutRolePolicy(m.Context(), &iam.PutRolePolicyInput{RoleName: &name, PolicyName: &policy, PolicyDocument: &document})
		m.check(err)
	}
	var code bytes.Buffer
	archive := zip.NewWriter(&code)
	_, err = archive.Create("bootstrap")
	m.check(err, archive.Close())
	for _, id := range []string{"Authorizer", "Forward", "SigningKeys"} {
		_, err := lambda.NewFromConfig(m.Config).CreateFunction(m.Context(), &lambda.CreateFunctionInput{FunctionName: aws.String(physical(id)), Role: role.Role.Arn, Handler: aws.String("bootstrap"), Runtime: functions.RuntimeProvidedal2023, Code: &functions.FunctionCode{ZipFile: code.Bytes()}})
		m.check(err)
	}
}

// createAPIs creates the APIs, and a domain that is mapped to the HTTP API. It returns the id of the HTTP API.
func (m moto) createAPIs(c *cloud) string {
	for _, name := range c.restAPIs {
		_, err := apigateway.NewFromConfig(m.Config).CreateRestApi(m.Context(), &apigateway.CreateRestApiInput{Name: &name})
		m.check(err)
	}
	client, domain, stage := apigatewayv2.NewFromConfig(m.Config), aws.String("api.example.com"), aws.String("$default")
	api, err := client.CreateApi(m.Context(), &apigatewayv2.CreateApiInput{Name: aws.String("web"), ProtocolType: webs.ProtocolTypeHttp})
	m.check(err)
	_, err = client.CreateStage(m.Context(), &apigatewayv2.CreateStageInput{ApiId: api.ApiId, StageName: stage, RouteSettings: c.routes})
	m.check(err)
	_, err = client.CreateDomainName(m.Context(), &apigatewayv2.CreateDomainNameInput{DomainName: domain})
	m.check(err)
	for _, path := range c.mappings {
		_, err := client.CreateApiMapping(m.Context(), &apigatewayv2.CreateApiMappingInput{ApiId: api.ApiId, DomainName: domain, Stage: stage, ApiMappingKey: &path})
		m.check(err)
	}
	return aws.ToString(api.ApiId)
}

func (m moto) createTables(c *cloud) {
	for _, each := range c.tables {
		region, name, _ := strings.Cut(each, "/")
		_, err := dynamodb.NewFromConfig(m.Config, func(o *dynamodb.Options) { o.Region = region }).CreateTable(m.Context(), records.TableInput(name))
		m.check(err)
	}
}

// The rows read the answers of AWS as an emulator gives them: those of a healthy account pass, and those of an account with
// faults fail. Moto connects no function to a network.
func TestStack_Check_moto(t *testing.T) {
	create := func(c *cloud) map[string]verify.Observation {
		m := newMoto(t)
		m.createWatched(c)
		m.createFunctions(c)
		m.createTables(c)
		c.emulated, c.ids = m.Config, map[string]string{"Web": m.createAPIs(c)}
		return checkAll(t, c.open(t))
	}
	all := create(healthy(t))
	if failed, skipped := with(all, verify.Fail), with(all, verify.Skip); len(failed) > 0 || !slices.Equal(skipped, []string{"vpc-policy"}) {
		t.Errorf("healthy: got failing rows %v and skipped rows %v, want only vpc-policy skipped: %+v", failed, skipped, all)
	}
	c := healthy(t)
	c.routes, c.mappings, c.dashboard, c.tables, c.alarms[2].MetricName = map[string]webs.RouteSettings{"GET /": {ThrottlingRateLimit: aws.Float64(5)}}, []string{"v2"}, `{"widgets":[]}`, c.tables[1:], aws.String("NoSuchMetric")
	c.lines = append(c.lines, line{during(), "weir-dev-log", `{"level":"WARN","msg":"subject hash key not read"}`})
	replacePolicy("UpdateItem", "DescribeTable")(c)
	all = create(c)
	if got, want := with(all, verify.Fail), []string{"alarm-metrics", "dashboard", "domain-mappings", "http-route-settings", "log-errors", "regions-tables", "role-permissions", "role-policies", "subject-key-policy"}; !slices.Equal(got, want) {
		t.Errorf("with faults: got failing rows %v, want %v", got, want)
	}
}

// Rules returns the published rules that the functions read: those of the deployment or of operators. It returns
// none before the first publication, and for a stack whose rules are elsewhere.
func TestStack_Rules(t *testing.T) {
	const document = `{"rules":[]}`
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	if _, err := compressed.Write([]byte(document)); err != nil || compressed.Close() != nil {
		t.Fatal(err)
	}
	for from, publish := range map[string]func(client *dynamodb.Client, table string) error{
		contract.RulesTable: func(client *dynamodb.Client, table string) error {
			_, err := rulestore.New(client, table).Publish(t.Context(), time.Now(), []byte(document), "", 0, 0)
			return err
		},
		contract.RulesDeployment: func(client *dynamodb.Client, table string) error {
			p := &rulestore.Publisher{API: client, Clock: time.Now}
			_, _, err := p.Publish(t.Context(), cfn.Event{RequestType: cfn.RequestCreate, ResourceProperties: map[string]any{contract.PropertyTable: table, contract.PropertyNamespace: "dev", contract.PropertyDocument: base64.StdEncoding.EncodeToString(packed.Bytes())}})
			return err
		},
		"appconfig:a/b/c": nil,
	} {
		m, c := newMoto(t), healthy(t)
		m.createTables(c)
		c.emulated = m.Config
		c.replace("appconfig:weir/dev/rules", from)
		s := c.open(t)
		if got, err := s.Rules(t.Context()); got != nil || err != nil {
			t.Errorf("%s, before a publication: got %s, error %v, want neither", from, got, err)
		}
		if publish == nil {
			continue
		}
		m.check(publish(dynamodb.NewFromConfig(m.Config), physical("Records")))
		if got, err := s.Rules(t.Context()); err != nil || string(got) != document {
			t.Errorf("%s, after a publication: got %s, error %v, want the document", from, got, err)
		}
	}
}
