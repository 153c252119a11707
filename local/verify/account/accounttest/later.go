package accounttest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/apigatewayv2"
	webs "github.com/aws/aws-sdk-go-v2/service/apigatewayv2/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/wafv2"
	firewalls "github.com/aws/aws-sdk-go-v2/service/wafv2/types"
)

// later are the types of createLater, each after the types to which it refers.
var later = []string{
	"AWS::ApiGatewayV2::Api", "AWS::ApiGatewayV2::Stage", "AWS::WAFv2::WebACL", "AWS::WAFv2::WebACLAssociation",
	"AWS::Lambda::Permission", "AWS::Logs::SubscriptionFilter", "AWS::Logs::MetricFilter", "AWS::CloudWatch::Alarm",
}

// createLater creates the resource of a type in later.
func (c *Cloud) createLater(ctx context.Context, id string, r resource, s *stack) error {
	p, _ := s.resolve(r.Properties).(map[string]any)
	text := func(name string) *string { return aws.String(fmt.Sprint(p[name])) }
	log := cloudwatchlogs.NewFromConfig(c.behind())
	switch r.Type {
	case "AWS::ApiGatewayV2::Api":
		out, err := apigatewayv2.NewFromConfig(c.behind()).CreateApi(ctx, &apigatewayv2.CreateApiInput{Name: text("Name"), ProtocolType: webs.ProtocolTypeHttp})
		if err == nil {
			s.physical[id] = aws.ToString(out.ApiId)
		}
		return err
	case "AWS::ApiGatewayV2::Stage":
		in := &apigatewayv2.CreateStageInput{}
		if err := into(p, in); err != nil {
			return err
		}
		_, err := apigatewayv2.NewFromConfig(c.behind()).CreateStage(ctx, in)
		return err
	case "AWS::WAFv2::WebACL":
		in := &wafv2.CreateWebACLInput{}
		if err := into(p, in); err != nil {
			return err
		}
		in.Name = aws.String(strings.ToLower(id))
		out, err := wafv2.NewFromConfig(c.behind()).CreateWebACL(ctx, in)
		if err == nil {
			s.physical[id] = strings.Join([]string{*in.Name, aws.ToString(out.Summary.Id), string(firewalls.ScopeRegional)}, "|")
			s.arns[id] = aws.ToString(out.Summary.ARN)
		}
		return err
	case "AWS::WAFv2::WebACLAssociation":
		_, err := wafv2.NewFromConfig(c.behind()).AssociateWebACL(ctx, &wafv2.AssociateWebACLInput{WebACLArn: text("WebACLArn"), ResourceArn: text("ResourceArn")})
		return err
	case "AWS::CloudWatch::Alarm":
		s.physical[id] = *text("AlarmName")
		return c.putAlarm(ctx, p)
	case "AWS::Lambda::Permission":
		if p["Principal"] != "logs.amazonaws.com" {
			return nil
		}
		_, err := lambda.NewFromConfig(c.behind()).AddPermission(ctx, &lambda.AddPermissionInput{
			FunctionName: last(p["FunctionName"]), StatementId: &id, Action: text("Action"), Principal: text("Principal"), SourceArn: text("SourceArn"),
		})
		return err
	case "AWS::Logs::SubscriptionFilter":
		f, err := lambda.NewFromConfig(c.behind()).GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: last(p["DestinationArn"])})
		if err != nil {
			return err
		}
		_, err = log.PutSubscriptionFilter(ctx, &cloudwatchlogs.PutSubscriptionFilterInput{
			LogGroupName: text("LogGroupName"), FilterName: &id, FilterPattern: text("FilterPattern"), DestinationArn: f.FunctionArn,
		})
		return err
	case "AWS::Logs::MetricFilter":
		var t struct{ MetricTransformations []logs.MetricTransformation }
		if err := into(p, &t); err != nil {
			return err
		}
		_, err := log.PutMetricFilter(ctx, &cloudwatchlogs.PutMetricFilterInput{
			LogGroupName: text("LogGroupName"), FilterName: &id, FilterPattern: text("FilterPattern"), MetricTransformations: t.MetricTransformations,
		})
		return err
	}
	return nil
}

// into converts properties to the input of a call. Their names are equal.
func into(properties map[string]any, input any) error {
	data, err := json.Marshal(properties)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, input)
}

// last returns the last part of an ARN.
func last(arn any) *string {
	text := fmt.Sprint(arn)
	return aws.String(text[strings.LastIndexByte(text, ':')+1:])
}
