package account

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/apigateway"
	"github.com/aws/aws-sdk-go-v2/service/apigateway/types"

	"github.com/weir-limits/weir/local/verify"
)

const (
	authorizerType = "AWS::ApiGateway::Authorizer"
	methodType     = "AWS::ApiGateway::Method"
	stageType      = "AWS::ApiGateway::Stage"
	responseType   = "AWS::ApiGateway::GatewayResponse"
)

// value returns the text of a property that is a literal, or a reference to a resource or a parameter.
func (s *Stack) value(v any) string {
	m, ok := v.(map[string]any)
	if !ok {
		text, _ := scalar(v)
		return text
	}
	id := fmt.Sprint(m["Ref"])
	if r, ok := s.find(id); ok {
		return r.Physical
	}
	return s.parameters[id]
}

// authorizerCache tests that API Gateway invokes the authorizer for each request. With a cache, it would
// repeat an allowed decision without a charge.
func (s *Stack) authorizerCache(ctx context.Context) (verify.Observation, error) {
	var problems []string
	authorizers := s.of(authorizerType)
	for _, r := range authorizers {
		api := s.value(r.Properties["RestApiId"])
		out, err := s.apis.GetAuthorizer(ctx, &apigateway.GetAuthorizerInput{RestApiId: &api, AuthorizerId: &r.Physical})
		if err != nil {
			return verify.Observation{}, fmt.Errorf("%s: %w", r.ID, err)
		}
		problems = append(problems, s.compare(r, map[string]any{
			"AuthorizerResultTtlInSeconds": aws.ToInt32(out.AuthorizerResultTtlInSeconds), "Type": out.Type,
			"IdentitySource": aws.ToString(out.IdentitySource), "AuthorizerUri": aws.ToString(out.AuthorizerUri),
		})...)
		if ttl := aws.ToInt32(out.AuthorizerResultTtlInSeconds); ttl != 0 {
			problems = append(problems, fmt.Sprintf("%s: caches its result for %d s", r.ID, ttl))
		}
	}
	if len(authorizers) == 0 {
		return skipped("the stack has no authorizer"), nil
	}
	return verdict("a time to live of 0 seconds, and the function of the stack", "as expected", problems), nil
}

// authorizerMethods tests the authorizer of each method in the template.
func (s *Stack) authorizerMethods(ctx context.Context) (o verify.Observation, err error) {
	var problems []string
	methods := s.of(methodType)
	for _, r := range methods {
		api, path := s.value(r.Properties["RestApiId"]), s.value(r.Properties["ResourceId"])
		verb := fmt.Sprint(r.Properties["HttpMethod"])
		if path == "" { // the template has no id of the root
			if path, err = s.root(ctx, api); err != nil {
				return o, fmt.Errorf("%s: %w", r.ID, err)
			}
		}
		out, err := s.apis.GetMethod(ctx, &apigateway.GetMethodInput{RestApiId: &api, ResourceId: &path, HttpMethod: &verb})
		if _, missing := errors.AsType[*types.NotFoundException](err); missing {
			problems = append(problems, r.ID+": the API has no such method")
			continue
		}
		if err != nil {
			return verify.Observation{}, fmt.Errorf("%s: %w", r.ID, err)
		}
		problems = append(problems, s.compare(r, map[string]any{"AuthorizationType": aws.ToString(out.AuthorizationType), "AuthorizerId": out.AuthorizerId})...)
	}
	if len(methods) == 0 {
		return skipped("the stack has no methods"), nil
	}
	return verdict("the authorizer of the template on each method", fmt.Sprintf("%d methods", len(methods)), problems), nil
}

// root returns the id of the root resource of an API.
func (s *Stack) root(ctx context.Context, api string) (string, error) {
	pages := apigateway.NewGetResourcesPaginator(s.apis, &apigateway.GetResourcesInput{RestApiId: &api, Limit: aws.Int32(500)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return "", err
		}
		for _, each := range page.Items {
			if aws.ToString(each.Path) == "/" {
				return aws.ToString(each.Id), nil
			}
		}
	}
	return "", fmt.Errorf("API %s: no root resource", api)
}

// stageSettings tests the throttle of the stages, and that they neither cache nor log bodies.
func (s *Stack) stageSettings(ctx context.Context) (verify.Observation, error) {
	var problems []string
	stages := s.of(stageType)
	for _, r := range stages {
		api := s.value(r.Properties["RestApiId"])
		out, err := s.apis.GetStage(ctx, &apigateway.GetStageInput{RestApiId: &api, StageName: &r.Physical})
		if err != nil {
			return verify.Observation{}, fmt.Errorf("%s: %w", r.ID, err)
		}
		problems = append(problems, s.settings(r, out)...)
	}
	if len(stages) == 0 {
		return skipped("the stack has no stage of a REST API"), nil
	}
	return verdict("the throttle of the template, and no cache", "as expected", problems), nil
}

// settings compares the method settings of a stage with those in the template.
func (s *Stack) settings(r Resource, out *apigateway.GetStageOutput) (problems []string) {
	for key, got := range out.MethodSettings {
		if got.CachingEnabled || got.DataTraceEnabled {
			problems = append(problems, fmt.Sprintf("%s: %s: caching %t, data trace %t; want neither", r.ID, key, got.CachingEnabled, got.DataTraceEnabled))
		}
	}
	list, _ := r.Properties["MethodSettings"].([]any)
	for _, each := range list {
		want, ok := each.(map[string]any)
		if !ok {
			continue
		}
		// The key of the setting of all methods is */*.
		key := strings.TrimPrefix(fmt.Sprint(want["ResourcePath"]), "/") + "/" + fmt.Sprint(want["HttpMethod"])
		got := out.MethodSettings[key]
		for name, value := range map[string]any{"ThrottlingRateLimit": got.ThrottlingRateLimit, "ThrottlingBurstLimit": got.ThrottlingBurstLimit} {
			if d := s.differs(r.ID+"."+key+"."+name, want[name], plain(value)); d != "" {
				problems = append(problems, d)
			}
		}
	}
	return problems
}

// gatewayResponses tests the responses of API Gateway to refused requests. An API has one response of each
// type, so another stack or a person can replace a response.
func (s *Stack) gatewayResponses(ctx context.Context) (verify.Observation, error) {
	var problems []string
	responses := s.of(responseType)
	for _, r := range responses {
		api, kind := s.value(r.Properties["RestApiId"]), types.GatewayResponseType(fmt.Sprint(r.Properties["ResponseType"]))
		out, err := s.apis.GetGatewayResponse(ctx, &apigateway.GetGatewayResponseInput{RestApiId: &api, ResponseType: kind})
		if _, missing := errors.AsType[*types.NotFoundException](err); missing {
			problems = append(problems, fmt.Sprintf("%s: the API has no response of this type", kind))
			continue
		}
		if err != nil {
			return verify.Observation{}, fmt.Errorf("%s: %w", r.ID, err)
		}
		differs := s.compare(r, map[string]any{"StatusCode": aws.ToString(out.StatusCode), "ResponseParameters": out.ResponseParameters, "ResponseTemplates": out.ResponseTemplates})
		if len(differs) > 0 {
			problems = append(problems, fmt.Sprintf("the API has another response of type %s; attach the responses of the stack, and deploy the stage: %s", kind, strings.Join(differs, "; ")))
		}
	}
	if len(responses) == 0 {
		return skipped("the stack has no gateway responses"), nil
	}
	return verdict("the responses of the template", fmt.Sprintf("%d responses", len(responses)), problems), nil
}
