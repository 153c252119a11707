package account

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/apigatewayv2"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/local/verify"
)

const (
	authorizerType = "AWS::ApiGateway::Authorizer"
	stageType      = "AWS::ApiGateway::Stage"
	httpAPIType    = "AWS::ApiGatewayV2::Api"
	httpStageType  = "AWS::ApiGatewayV2::Stage"
)

// routeSettings tests that no route of an HTTP API has settings of its own, such as a throttle, unless the template sets
// them. CloudFormation does not compare settings that a template lacks.
func (s *Stack) routeSettings(ctx context.Context) verify.Observation {
	var problems []string
	stages := s.of(httpStageType)
	for _, r := range stages {
		api, name := s.value(r.Properties["ApiId"]), s.value(r.Properties["StageName"])
		out, err := s.webs.GetStage(ctx, &apigatewayv2.GetStageInput{ApiId: &api, StageName: &name})
		if err != nil {
			s.keep(fmt.Errorf("%s: %w", r.ID, err))
			return verify.Observation{}
		}
		problems = append(problems, problem(r.Properties["RouteSettings"] == nil && len(out.RouteSettings) > 0, "%s: got settings of the routes %q, want none", r.ID, sorted(out.RouteSettings))...)
	}
	if len(stages) == 0 {
		return skipped("the stack has no stage of an HTTP API")
	}
	return verdict("no settings of single routes", "none", problems)
}

// domainMappings tests that the functions know the base path of each domain. Otherwise no rule matches the requests to
// the domain.
func (s *Stack) domainMappings(ctx context.Context) verify.Observation {
	mapped, problems := 0, []string(nil)
	known := strings.FieldsFunc(s.setting(contract.VariableBasePath), func(c rune) bool { return c == ',' || c == ' ' })
	for in := new(apigatewayv2.GetDomainNamesInput); ; {
		domains, err := s.webs.GetDomainNames(ctx, in)
		if !s.keep(err) {
			return verify.Observation{}
		}
		for _, d := range domains.Items {
			paths := s.basePaths(ctx, aws.ToString(d.DomainName))
			mapped += len(paths)
			for _, path := range missing(known, paths) {
				problems = append(problems, fmt.Sprintf("domain %s: BASE_PATH is %q, want /%s among its paths; set it", aws.ToString(d.DomainName), s.setting(contract.VariableBasePath), path))
			}
		}
		if in.NextToken = domains.NextToken; in.NextToken == nil {
			break
		}
	}
	if mapped == 0 {
		return skipped("no custom domain is mapped to an API of the stack")
	}
	return verdict("the paths of all mappings in BASE_PATH", fmt.Sprintf("%d mappings", mapped), problems)
}

// missing returns the paths of one domain's mappings that the list of base paths lacks. The list needs the path "", as
// /, only if it also has a path that the domain does not map, because the functions would otherwise remove that path
// from requests to this domain.
func missing(list, mapped []string) (paths []string) {
	elsewhere := slices.ContainsFunc(list, func(path string) bool { return !slices.Contains(mapped, strings.TrimPrefix(path, "/")) })
	for _, path := range mapped {
		if (path != "" || elsewhere) && !slices.Contains(list, "/"+path) {
			paths = append(paths, path)
		}
	}
	return paths
}

func (s *Stack) basePaths(ctx context.Context, domain string) (paths []string) {
	apis := s.apiIDs()
	for in := (&apigatewayv2.GetApiMappingsInput{DomainName: &domain}); s.err == nil; {
		out, err := s.webs.GetApiMappings(ctx, in)
		if !s.keep(err) {
			return nil
		}
		for _, m := range out.Items {
			if slices.Contains(apis, aws.ToString(m.ApiId)) {
				paths = append(paths, aws.ToString(m.ApiMappingKey))
			}
		}
		if in.NextToken = out.NextToken; in.NextToken == nil {
			break
		}
	}
	return paths
}

// apiIDs returns the ids of the APIs that the stack limits. The REST API can be in another stack.
func (s *Stack) apiIDs() (ids []string) {
	for _, r := range s.of(authorizerType) {
		ids = append(ids, s.value(r.Properties["RestApiId"]))
	}
	for _, r := range s.of(httpAPIType) {
		ids = append(ids, r.Physical)
	}
	return ids
}
