package accounttest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/apigatewayv2"
	apis "github.com/aws/aws-sdk-go-v2/service/apigatewayv2/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/schemas"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	tables "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/aws/smithy-go/transport/http/protocol/awsquery"

	"github.com/weir-limits/weir/functions/records"
)

// native are the types that Moto's CloudFormation creates.
var native = []string{
	"AWS::ApiGateway::RestApi", "AWS::CloudWatch::Dashboard", "AWS::DynamoDB::Table", "AWS::IAM::ManagedPolicy", "AWS::IAM::Policy", "AWS::IAM::Role",
	"AWS::Lambda::Function", "AWS::Logs::LogGroup", "AWS::SNS::Topic", "AWS::EC2::VPC", "AWS::EC2::Subnet", "AWS::EC2::SecurityGroup",
}

func (c *Cloud) createStack(ctx context.Context, form url.Values) (_ string, err error) {
	name, body := form.Get("StackName"), []byte(form.Get("TemplateBody"))
	arn := element("StackId", "arn:aws:cloudformation:us-east-1:123456789012:stack/"+name+"/1")
	if s, err := c.deployed(form); err == nil && bytes.Equal(s.template, body) { // a client repeats a call whose answer is lost
		return arn, nil
	}
	if address := form.Get("TemplateURL"); address != "" {
		if body, err = c.fromBucket(ctx, address); err != nil {
			return "", err
		}
	}
	var t template
	if err := json.Unmarshal(body, &t); err != nil {
		return "", err
	}
	s := &stack{template: body, outputs: map[string]string{}, parameters: map[string]string{}, status: "CREATE_COMPLETE", physical: map[string]string{}, types: map[string]string{}}
	if err := c.createAPIs(ctx, t, s); err != nil {
		return "", err
	}
	others, err := c.createNative(ctx, form, t, s)
	if err != nil {
		return "", err
	}
	for _, id := range slices.Sorted(maps.Keys(t.Resources)) {
		r := t.Resources[id]
		properties, other := others[id]
		switch exists := slices.Contains(native, r.Type) && s.physical[id] != ""; {
		case !other && !exists: // its condition does not hold
			continue
		case other:
			err = c.createOther(ctx, id, r.Type, properties, s)
		case r.Type == "AWS::DynamoDB::Table":
			err = c.expire(ctx, s.physical[id], r)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", id, err)
		}
		s.types[id] = r.Type
		s.order = append(s.order, id)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stacks[name] = s
	return arn, nil
}

// createAPIs creates the HTTP APIs, whose ids other resources need.
func (c *Cloud) createAPIs(ctx context.Context, t template, s *stack) error {
	for id, r := range t.Resources {
		if r.Type != "AWS::ApiGatewayV2::Api" {
			continue
		}
		out, err := apigatewayv2.NewFromConfig(c.behind()).CreateApi(ctx, &apigatewayv2.CreateApiInput{Name: &id, ProtocolType: apis.ProtocolTypeHttp})
		if err != nil {
			return err
		}
		s.physical[id] = aws.ToString(out.ApiId)
	}
	return nil
}

// otherPrefix begins the names of outputs in which Moto returns the properties of a resource that it does not create.
const otherPrefix = "other:"

// createNative creates the types that Moto's CloudFormation knows. It returns the properties of the other resources whose
// conditions hold, which Moto evaluates.
func (c *Cloud) createNative(ctx context.Context, form url.Values, t template, s *stack) (others map[string][]byte, err error) {
	body, err := json.Marshal(t.forMoto(s))
	if err != nil {
		return nil, err
	}
	in := &cloudformation.CreateStackInput{StackName: aws.String(form.Get("StackName")), TemplateBody: aws.String(string(body))}
	for i := 1; form.Has(fmt.Sprintf("Parameters.member.%d.ParameterKey", i)); i++ {
		key, value := form.Get(fmt.Sprintf("Parameters.member.%d.ParameterKey", i)), form.Get(fmt.Sprintf("Parameters.member.%d.ParameterValue", i))
		in.Parameters = append(in.Parameters, types.Parameter{ParameterKey: &key, ParameterValue: &value})
	}
	formation := cloudformation.NewFromConfig(c.behind())
	_, err = formation.CreateStack(ctx, in)
	if _, repeated := errors.AsType[*types.AlreadyExistsException](err); err != nil && !repeated { // the client repeats a call whose answer is lost
		return nil, err
	}
	made, err := formation.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: in.StackName})
	if err != nil {
		return nil, err
	}
	for _, p := range made.Stacks[0].Parameters {
		s.parameters[aws.ToString(p.ParameterKey)] = aws.ToString(p.ParameterValue)
	}
	others = map[string][]byte{}
	for _, o := range made.Stacks[0].Outputs {
		if id, other := strings.CutPrefix(aws.ToString(o.OutputKey), otherPrefix); other {
			others[id] = []byte(aws.ToString(o.OutputValue))
		} else {
			s.outputs[id] = aws.ToString(o.OutputValue)
		}
	}
	listed, err := formation.ListStackResources(ctx, &cloudformation.ListStackResourcesInput{StackName: in.StackName})
	if err != nil {
		return nil, err
	}
	for _, r := range listed.StackResourceSummaries {
		s.physical[aws.ToString(r.LogicalResourceId)] = aws.ToString(r.PhysicalResourceId)
	}
	return others, nil
}

// forMoto returns a template of the types that Moto's CloudFormation knows. Its outputs have the properties of the other
// resources.
func (t template) forMoto(s *stack) template {
	made := template{Parameters: t.Parameters, Conditions: t.Conditions, Resources: map[string]resource{}, Outputs: map[string]output{}}
	maps.DeleteFunc(made.Parameters, func(_ string, p parameter) bool { return strings.HasPrefix(p.Type, "AWS::SSM::") }) // the version of the CDK's bootstrap
	for id, r := range t.Resources {
		if name, _ := cmp.Or(r.Properties["StageName"], r.Properties["TableName"]).(string); !slices.Contains(native, r.Type) {
			s.physical[id] = cmp.Or(s.physical[id], name, strings.ToLower(id))
		}
	}
	for id, r := range t.Resources {
		r.Properties = t.known(r.Properties, s).(map[string]any)
		if slices.Contains(native, r.Type) {
			delete(r.Properties, "Layers")
			made.Resources[id] = r
		} else {
			made.Outputs[otherPrefix+id] = output{r.Condition, map[string]any{"Fn::ToJsonString": r.Properties}}
		}
	}
	for id, o := range t.Outputs {
		made.Outputs[id] = output{o.Condition, map[string]any{"Fn::Join": []any{"", []any{t.known(o.Value, s)}}}} // Moto knows few attributes of a plain Fn::GetAtt
	}
	return made
}

// known replaces references to resources that Moto does not create.
func (t template) known(v any, s *stack) any {
	switch v := v.(type) {
	case map[string]any:
		unknown := func(id string) bool {
			r, ok := t.Resources[id]
			return ok && !slices.Contains(native, r.Type)
		}
		if id, ok := v["Ref"].(string); ok && unknown(id) {
			return s.physical[id]
		}
		if list, ok := v["Fn::GetAtt"].([]any); ok && unknown(list[0].(string)) {
			if list[1] == "Name" {
				return ExistingAPI
			}
			return "arn:aws:any:us-east-1:123456789012:function:" + s.physical[list[0].(string)]
		}
		made := map[string]any{}
		for k, each := range v {
			made[k] = t.known(each, s)
		}
		return made
	case []any:
		made := make([]any, len(v))
		for i := range v {
			made[i] = t.known(v[i], s)
		}
		return made
	}
	return v
}

// behind returns the configuration of clients of Moto.
func (c *Cloud) behind() aws.Config {
	config := c.Config()
	config.BaseEndpoint = &c.moto
	config.APIOptions = append(config.APIOptions, smithyhttp.SetHeaderValue(accountHeader, c.id))
	return config
}

// createOther creates a resource that Moto's CloudFormation does not create.
func (c *Cloud) createOther(ctx context.Context, id, kind string, properties []byte, s *stack) error {
	switch kind {
	case "AWS::ApiGatewayV2::Stage":
		in := &apigatewayv2.CreateStageInput{}
		if err := json.Unmarshal(properties, in); err != nil {
			return err
		}
		_, err := apigatewayv2.NewFromConfig(c.behind()).CreateStage(ctx, in)
		return err
	case "AWS::DynamoDB::GlobalTable":
		var in struct {
			TableName string
			Replicas  []struct{ Region string }
		}
		if err := json.Unmarshal(properties, &in); err != nil {
			return err
		}
		for _, replica := range in.Replicas {
			if err := c.createTable(ctx, replica.Region, in.TableName); err != nil {
				return err
			}
		}
		return nil
	case "AWS::CloudWatch::Alarm":
		in := &cloudwatch.PutMetricAlarmInput{ActionsEnabled: aws.Bool(true)}
		if err := json.Unmarshal(properties, in); err != nil {
			return err
		}
		s.physical[id] = aws.ToString(in.AlarmName)
		_, err := c.watch().PutMetricAlarm(ctx, in)
		return err
	}
	return nil
}

// createTable creates a table in a region, unless it exists.
func (c *Cloud) createTable(ctx context.Context, region, name string) error {
	_, err := dynamodb.NewFromConfig(c.behind(), func(o *dynamodb.Options) { o.Region = region }).CreateTable(ctx, records.TableInput(name))
	if _, exists := errors.AsType[*tables.ResourceInUseException](err); exists {
		return nil
	}
	return err
}

// CreateTable creates a table in a region, unless it exists.
func (c *Cloud) CreateTable(t *testing.T, region, name string) {
	t.Helper()
	if err := c.createTable(t.Context(), region, name); err != nil {
		t.Fatal(err)
	}
}

// expire sets the time to live of a table, which Moto's CloudFormation ignores.
func (c *Cloud) expire(ctx context.Context, table string, r resource) error {
	ttl, ok := r.Properties["TimeToLiveSpecification"].(map[string]any)
	if !ok {
		return nil
	}
	_, err := dynamodb.NewFromConfig(c.behind()).UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName: &table, TimeToLiveSpecification: &tables.TimeToLiveSpecification{AttributeName: aws.String(ttl["AttributeName"].(string)), Enabled: aws.Bool(true)},
	})
	return err
}

func (c *Cloud) watch() *cloudwatch.Client {
	return cloudwatch.NewFromConfig(c.behind(), Query)
}

// Query makes a client of CloudWatch use the protocol that Moto supports.
func Query(o *cloudwatch.Options) { o.Protocol = awsquery.New(schemas.GraniteServiceVersion20100801) }

func (c *Cloud) deployed(form url.Values) (*stack, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.stacks[form.Get(regionField)+"/"+form.Get("StackName")]
	if !ok {
		s, ok = c.stacks[form.Get("StackName")]
	}
	if !ok {
		return nil, fmt.Errorf("stack with id %s does not exist", form.Get("StackName"))
	}
	return s, nil
}

func (c *Cloud) deleteStack(ctx context.Context, form url.Values) (string, error) {
	s, err := c.deployed(form)
	if err != nil {
		return "", nil // CloudFormation deletes a missing stack without an error
	}
	c.mu.Lock()
	stuck := c.stuck
	if stuck {
		s.status = "DELETE_FAILED"
	}
	c.mu.Unlock()
	if stuck {
		return "", nil
	}
	name := form.Get("StackName")
	var alarms []string
	for id, kind := range s.types {
		if kind == "AWS::CloudWatch::Alarm" {
			alarms = append(alarms, s.physical[id])
		}
	}
	var first error
	if len(alarms) > 0 {
		_, first = c.watch().DeleteAlarms(ctx, &cloudwatch.DeleteAlarmsInput{AlarmNames: alarms})
	}
	_, second := cloudformation.NewFromConfig(c.behind()).DeleteStack(ctx, &cloudformation.DeleteStackInput{StackName: &name})
	if err := errors.Join(first, second); err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.stacks, name)
	return "", nil
}

func (c *Cloud) describeStacks(_ context.Context, form url.Values) (string, error) {
	s, err := c.deployed(form)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(s.outputs)) {
		b.WriteString("<member>" + element("OutputKey", key) + element("OutputValue", s.outputs[key]) + "</member>")
	}
	var given strings.Builder
	for _, key := range slices.Sorted(maps.Keys(s.parameters)) {
		given.WriteString("<member>" + element("ParameterKey", key) + element("ParameterValue", s.parameters[key]) + "</member>")
	}
	return "<Stacks><member>" + element("StackName", form.Get("StackName")) + element("StackStatus", s.status) +
		element("CreationTime", "2026-11-22T12:00:00Z") + "<Parameters>" + given.String() + "</Parameters>" + "<Outputs>" + b.String() + "</Outputs></member></Stacks>", nil
}

func (c *Cloud) listStackResources(_ context.Context, form url.Values) (string, error) {
	s, err := c.deployed(form)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, id := range s.order {
		b.WriteString("<member>" + element("LogicalResourceId", id) + element("PhysicalResourceId", s.physical[id]) + element("ResourceType", s.types[id]) +
			element("ResourceStatus", "CREATE_COMPLETE") + element("LastUpdatedTimestamp", "2026-11-22T12:00:00Z") + "</member>")
	}
	return "<StackResourceSummaries>" + b.String() + "</StackResourceSummaries>", nil
}

func (c *Cloud) getTemplate(_ context.Context, form url.Values) (string, error) {
	s, err := c.deployed(form)
	if err != nil {
		return "", err
	}
	return element("TemplateBody", string(s.template)), nil
}

// fromBucket reads the template of a CreateStack from a bucket. Moto serves it to any request that has credentials.
func (c *Cloud) fromBucket(ctx context.Context, address string) ([]byte, error) {
	at, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	bucket, _, _ := strings.Cut(at.Host, ".s3.")
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.moto+"/"+bucket+at.Path, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set(accountHeader, c.id)
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/20260101/"+Region+"/s3/aws4_request")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("object %s%s: got status %d, want 200", bucket, at.Path, answer.StatusCode)
	}
	return io.ReadAll(answer.Body)
}
