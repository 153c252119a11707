package account

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/apigatewayv2"
	"github.com/aws/aws-sdk-go-v2/service/wafv2"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/local/verify"
)

const (
	httpAPIType     = "AWS::ApiGatewayV2::Api"
	httpStageType   = "AWS::ApiGatewayV2::Stage"
	webACLType      = "AWS::WAFv2::WebACL"
	associationType = "AWS::WAFv2::WebACLAssociation"
)

// httpStage tests the throttles and the access logs of the stages of HTTP APIs.
func (s *Stack) httpStage(ctx context.Context) (verify.Observation, error) {
	var problems []string
	stages := s.of(httpStageType)
	for _, r := range stages {
		api, name := s.value(r.Properties["ApiId"]), s.value(r.Properties["StageName"])
		out, err := s.webs.GetStage(ctx, &apigatewayv2.GetStageInput{ApiId: &api, StageName: &name})
		if err != nil {
			return verify.Observation{}, fmt.Errorf("%s: %w", r.ID, err)
		}
		problems = append(problems, s.compare(r, map[string]any{"AccessLogSettings": out.AccessLogSettings})...)
		want, _ := r.Properties["DefaultRouteSettings"].(map[string]any)
		got, _ := plain(out.DefaultRouteSettings).(map[string]any)
		for _, key := range sorted(want) { // AWS adds the settings that the template lacks
			if d := s.differs(r.ID+".DefaultRouteSettings."+key, want[key], got[key]); d != "" {
				problems = append(problems, d)
			}
		}
		if r.Properties["RouteSettings"] == nil && len(out.RouteSettings) > 0 {
			problems = append(problems, fmt.Sprintf("%s: got settings of the routes %q, want none", r.ID, sorted(out.RouteSettings)))
		}
	}
	if len(stages) == 0 {
		return skipped("the stack has no stage of an HTTP API"), nil
	}
	return verdict("the throttle and the access log of the template", "as expected", problems), nil
}

// webACL tests that the web ACL of the stack protects its REST API.
func (s *Stack) webACL(ctx context.Context) (verify.Observation, error) {
	acls, associations := s.of(webACLType), s.of(associationType)
	if len(acls) != 1 || len(associations) == 0 {
		return skipped("the stack has no web ACL; deploy it with waf=2000"), nil
	}
	var problems []string
	protected := 0
	for _, stage := range s.of(stageType) {
		resource := fmt.Sprintf("arn:%s:apigateway:%s::/restapis/%s/stages/%s", s.partition, s.region, s.value(stage.Properties["RestApiId"]), stage.Physical)
		if !slices.ContainsFunc(associations, func(a Resource) bool { return s.differs("", a.Properties["ResourceArn"], resource) == "" }) {
			continue
		}
		protected++
		out, err := s.firewalls.GetWebACLForResource(ctx, &wafv2.GetWebACLForResourceInput{ResourceArn: &resource})
		switch {
		case err != nil:
			return verify.Observation{}, fmt.Errorf("%s: %w", stage.ID, err)
		case out.WebACL == nil:
			problems = append(problems, stage.ID+": no web ACL protects it")
		case !strings.Contains(acls[0].Physical, aws.ToString(out.WebACL.Id)):
			problems = append(problems, stage.ID+": another web ACL protects it")
		default:
			problems = append(problems, s.compare(acls[0], map[string]any{"Rules": out.WebACL.Rules, "DefaultAction": out.WebACL.DefaultAction})...)
		}
	}
	if protected == 0 {
		return skipped("the web ACL is for no stage of the stack"), nil
	}
	return verdict("the web ACL of the template on each stage", fmt.Sprintf("%d stages", protected), problems), nil
}

// domainMappings tests that the functions know the base path of each domain. Otherwise no rule matches the requests to
// the domain.
func (s *Stack) domainMappings(ctx context.Context) (verify.Observation, error) {
	mapped, problems := 0, []string(nil)
	known := strings.FieldsFunc(s.setting(contract.VariableBasePath), func(c rune) bool { return c == ',' || c == ' ' })
	for in := new(apigatewayv2.GetDomainNamesInput); ; {
		domains, err := s.webs.GetDomainNames(ctx, in)
		if err != nil {
			return verify.Observation{}, err
		}
		for _, d := range domains.Items {
			paths, err := s.basePaths(ctx, aws.ToString(d.DomainName))
			if err != nil {
				return verify.Observation{}, err
			}
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
		return skipped("no custom domain is mapped to an API of the stack"), nil
	}
	return verdict("the paths of all mappings in BASE_PATH", fmt.Sprintf("%d mappings", mapped), problems), nil
}

// missing returns the paths of one domain's mappings that the list of base paths lacks. The path "" must be there, as /,
// only if the list has a path that the domain does not map: the functions would remove it.
func missing(list, mapped []string) (paths []string) {
	elsewhere := slices.ContainsFunc(list, func(path string) bool { return !slices.Contains(mapped, strings.TrimPrefix(path, "/")) })
	for _, path := range mapped {
		if (path != "" || elsewhere) && !slices.Contains(list, "/"+path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// basePaths returns the paths by which a domain is mapped to the APIs of the stack.
func (s *Stack) basePaths(ctx context.Context, domain string) (paths []string, err error) {
	apis := s.apiIDs()
	for in := (&apigatewayv2.GetApiMappingsInput{DomainName: &domain}); ; {
		out, err := s.webs.GetApiMappings(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, m := range out.Items {
			if slices.Contains(apis, aws.ToString(m.ApiId)) {
				paths = append(paths, aws.ToString(m.ApiMappingKey))
			}
		}
		if in.NextToken = out.NextToken; in.NextToken == nil {
			return paths, nil
		}
	}
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
