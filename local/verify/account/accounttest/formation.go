package accounttest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

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
)

// native are the types that Moto's CloudFormation creates.
var native = []string{
	"AWS::ApiGateway::RestApi", "AWS::CloudWatch::Dashboard", "AWS::DynamoDB::Table", "AWS::IAM::ManagedPolicy", "AWS::IAM::Policy", "AWS::IAM::Role",
	"AWS::Lambda::Function", "AWS::Logs::LogGroup", "AWS::SNS::Topic", "AWS::EC2::VPC", "AWS::EC2::Subnet", "AWS::EC2::SecurityGroup",
}

func (c *Cloud) createStack(ctx context.Context, form url.Values) (string, error) {
	name, body := form.Get("StackName"), []byte(form.Get("TemplateBody"))
	arn := element("StackId", "arn:aws:cloudformation:us-east-1:123456789012:stack/"+name+"/1")
	if s, err := c.deployed(form); err == nil && bytes.Equal(s.template, body) { // a client repeats a call whose answer is lost
		return arn, nil
	}
	whole, parameters := body, map[string]string(nil)
	if address := form.Get("TemplateURL"); address != "" {
		var err error
		if whole, body, parameters, err = c.fromBucket(ctx, address, form); err != nil {
			return "", err
		}
	}
	resources, outputs, err := parse(body)
	if err != nil {
		return "", err
	}
	s := &stack{template: whole, outputs: outputs, parameters: parameters, status: "CREATE_COMPLETE", physical: map[string]string{}, types: map[string]string{}}
	if err := c.createNative(ctx, name, resources, s); err != nil {
		return "", err
	}
	for id := range resources {
		s.physical[id] = cmp.Or(s.physical[id], strings.ToLower(id))
	}
	for _, kind := range others {
		for _, id := range slices.Sorted(maps.Keys(resources)) {
			if resources[id].Type != kind {
				continue
			}
			if err := c.createOther(ctx, id, resources[id], s); err != nil {
				return "", fmt.Errorf("%s: %w", id, err)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(resources)) {
		s.types[id] = resources[id].Type
		s.order = append(s.order, id)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stacks[name] = s
	return arn, nil
}

// createNative creates the types that Moto's CloudFormation knows.
func (c *Cloud) createNative(ctx context.Context, name string, resources map[string]resource, s *stack) error {
	known := map[string]resource{}
	for id, r := range resources {
		if slices.Contains(native, r.Type) {
			known[id] = resource{r.Type, r.DeletionPolicy, withoutMissing(r.Properties, resources).(map[string]any)}
			delete(known[id].Properties, "Layers")
		}
	}
	body, err := json.Marshal(map[string]any{"Resources": known})
	if err != nil {
		return err
	}
	formation := cloudformation.NewFromConfig(c.behind())
	_, err = formation.CreateStack(ctx, &cloudformation.CreateStackInput{StackName: &name, TemplateBody: aws.String(string(body))})
	if _, repeated := errors.AsType[*types.AlreadyExistsException](err); err != nil && !repeated { // the client repeats a call whose answer is lost
		return err
	}
	pages := cloudformation.NewListStackResourcesPaginator(formation, &cloudformation.ListStackResourcesInput{StackName: &name})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, r := range page.StackResourceSummaries {
			s.physical[aws.ToString(r.LogicalResourceId)] = aws.ToString(r.PhysicalResourceId)
		}
	}
	return nil
}

// behind returns the configuration of clients of Moto.
func (c *Cloud) behind() aws.Config {
	config := c.Config()
	config.BaseEndpoint = &c.moto
	config.APIOptions = append(config.APIOptions, smithyhttp.SetHeaderValue(accountHeader, c.id))
	return config
}

// withoutMissing removes references to resources that Moto does not create.
func withoutMissing(v any, resources map[string]resource) any {
	switch v := v.(type) {
	case map[string]any:
		if id, ok := v["Ref"].(string); ok && !slices.Contains(native, resources[id].Type) && !strings.HasPrefix(id, "AWS::") {
			return strings.ToLower(id)
		}
		if list, ok := v["Fn::GetAtt"].([]any); ok && !slices.Contains(native, resources[list[0].(string)].Type) {
			return "arn:aws:any:us-east-1:123456789012:function:" + strings.ToLower(list[0].(string))
		}
		made := map[string]any{}
		for k, each := range v {
			made[k] = withoutMissing(each, resources)
		}
		return made
	case []any:
		made := make([]any, len(v))
		for i := range v {
			made[i] = withoutMissing(v[i], resources)
		}
		return made
	case nil:
		return map[string]any{}
	}
	return v
}

// resolve replaces references with physical ids. Only the values that tests read have to be exact.
func (s *stack) resolve(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if id, ok := v["Ref"].(string); ok {
			if id == "AWS::Region" {
				return Region
			}
			if id == "AWS::Partition" {
				return "aws"
			}
			if id == "AWS::URLSuffix" {
				return "amazonaws.com"
			}
			return s.physical[id]
		}
		if list, ok := v["Fn::GetAtt"].([]any); ok {
			return "arn:aws:any:us-east-1:123456789012:function:" + s.physical[list[0].(string)]
		}
		if list, ok := v["Fn::Join"].([]any); ok {
			var parts []string
			for _, p := range list[1].([]any) {
				parts = append(parts, fmt.Sprint(s.resolve(p)))
			}
			return strings.Join(parts, list[0].(string))
		}
		made := map[string]any{}
		for k, each := range v {
			made[k] = s.resolve(each)
		}
		return made
	case []any:
		made := make([]any, len(v))
		for i := range v {
			made[i] = s.resolve(v[i])
		}
		return made
	}
	return v
}

// others are the types of createOther, each after the types to which it refers.
var others = []string{"AWS::DynamoDB::Table", "AWS::ApiGatewayV2::Api", "AWS::ApiGatewayV2::Stage", "AWS::CloudWatch::Alarm"}

// createOther creates a resource that Moto's CloudFormation does not create, or sets a property that it ignores.
func (c *Cloud) createOther(ctx context.Context, id string, r resource, s *stack) error {
	p, _ := s.resolve(r.Properties).(map[string]any)
	webs := apigatewayv2.NewFromConfig(c.behind())
	switch r.Type {
	case "AWS::DynamoDB::Table":
		ttl, ok := p["TimeToLiveSpecification"].(map[string]any)
		if !ok {
			return nil
		}
		_, err := dynamodb.NewFromConfig(c.behind()).UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
			TableName: aws.String(s.physical[id]), TimeToLiveSpecification: &tables.TimeToLiveSpecification{AttributeName: aws.String(ttl["AttributeName"].(string)), Enabled: aws.Bool(true)},
		})
		return err
	case "AWS::ApiGatewayV2::Api":
		out, err := webs.CreateApi(ctx, &apigatewayv2.CreateApiInput{Name: aws.String(fmt.Sprint(p["Name"])), ProtocolType: apis.ProtocolTypeHttp})
		if err == nil {
			s.physical[id] = aws.ToString(out.ApiId)
		}
		return err
	case "AWS::ApiGatewayV2::Stage":
		in := &apigatewayv2.CreateStageInput{}
		if err := into(p, in); err != nil {
			return err
		}
		_, err := webs.CreateStage(ctx, in)
		return err
	}
	s.physical[id] = fmt.Sprint(p["AlarmName"])
	in := &cloudwatch.PutMetricAlarmInput{}
	if err := into(p, in); err != nil {
		return err
	}
	in.ActionsEnabled = aws.Bool(true)
	_, err := c.watch().PutMetricAlarm(ctx, in)
	return err
}

// into converts properties to the input of a call. Their names are equal.
func into(properties map[string]any, input any) error {
	data, err := json.Marshal(properties)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, input)
}

func (c *Cloud) watch() *cloudwatch.Client {
	return cloudwatch.NewFromConfig(c.behind(), Query)
}

// Query makes a client of CloudWatch use the protocol that Moto supports.
func Query(o *cloudwatch.Options) { o.Protocol = awsquery.New(schemas.GraniteServiceVersion20100801) }

func (c *Cloud) deployed(form url.Values) (*stack, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.stacks[form.Get("StackName")]
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
		b.WriteString("<member>" + element("OutputKey", key) + element("OutputValue", fmt.Sprint(s.resolve(s.outputs[key].Value))) + "</member>")
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
