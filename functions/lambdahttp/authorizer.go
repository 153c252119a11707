package lambdahttp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/outcome"
	"github.com/weir-limits/weir/limiter/rules"
)

// errUnauthorized is the very text by which an authorizer asks API Gateway for a 401; any
// other error is a failure of the authorizer.
var errUnauthorized = errors.New("Unauthorized")

// errStoreFailed is a failure too, which API Gateway answers with the static 503 of its
// AUTHORIZER_* responses.
var errStoreFailed = errors.New("the store failed, and on_error of a rule is deny")

// NewAuthorizer returns the authorizer function. Its answer to an event is a policy
// that allows or, over the limit, denies; the error "Unauthorized" for a bad
// credential; or another error if there could be no answer.
func NewAuthorizer(e *Environment) lambda.Handler { return authorizer{e, e.gate()} }

type authorizer struct {
	*Environment
	gate *httplimit.Gate
}

// Invoke implements lambda.Handler.
func (a authorizer) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	defer a.Events.Wait(ctx)
	var event authorizerEvent
	if err := json.Unmarshal(payload, &event); err != nil {
		return nil, a.undecided(fmt.Errorf("authorizer event: %w", err))
	}
	if event.Type != "REQUEST" {
		return nil, a.undecided(fmt.Errorf("authorizer event: got type %q, want REQUEST: a TOKEN authorizer does not see the request", event.Type))
	}
	policy, err := a.decide(ctx, &event)
	if err != nil {
		return nil, err
	}
	return json.Marshal(policy)
}

// undecided records a request of which nothing is known but err, and returns it.
func (e *Environment) undecided(err error) error {
	e.observe(outcome.Outcome{Time: e.Clock(), Err: err})
	return err
}

// authorizerEvent is what is read of a REQUEST event.
type authorizerEvent struct {
	Type           string              `json:"type"`
	MethodARN      string              `json:"methodArn"`
	HTTPMethod     string              `json:"httpMethod"`
	Path           string              `json:"path"`
	Headers        map[string]string   `json:"headers"`
	MultiHeaders   map[string][]string `json:"multiValueHeaders"`
	RequestContext struct {
		DomainName string `json:"domainName"`
		Identity   struct {
			SourceIP string `json:"sourceIp"`
		} `json:"identity"`
	} `json:"requestContext"`
}

func (a authorizer) decide(ctx context.Context, event *authorizerEvent) (*events.APIGatewayCustomAuthorizerResponse, error) {
	if event.HTTPMethod == http.MethodOptions { // of a method ANY: a preflight has no credential, and is never limited
		allowed := limiter.Decision{Allowed: true, At: a.Clock()}
		return a.policy(event, "Allow", httplimit.Result{Answer: httplimit.NewAnswer(allowed)}), nil
	}
	defer a.Rules.Settle()
	path, err := rules.ParsePath(event.Path, a.basePath(event.RequestContext.DomainName))
	result := a.gate.Decide(ctx, httplimit.Request{
		Method: event.HTTPMethod, Path: path, Malformed: err != nil,
		Header:  headerOf(event.Headers, event.MultiHeaders),
		Address: caller.ParseAddress(event.RequestContext.Identity.SourceIP),
	})
	switch result.Class() {
	case outcome.Allowed:
		return a.policy(event, "Allow", result), nil
	case outcome.Refused:
		return a.policy(event, "Deny", result), nil
	case outcome.Unauthorized:
		return nil, errUnauthorized
	default: // a Deny would be 429
		return nil, cmp.Or(result.Err, errStoreFailed)
	}
}

// policy returns the policy for the whole stage: API Gateway asks for this request
// only (the result is not cached), and a policy that named a long path would be
// invalid.
func (a authorizer) policy(event *authorizerEvent, effect string, r httplimit.Result) *events.APIGatewayCustomAuthorizerResponse {
	subject, tier := r.Caller.Subject(), r.Tier
	if tier == "" { // no rule was matched
		tier = a.Rules.Current().Tier(r.Caller.Tier)
	}
	return &events.APIGatewayCustomAuthorizerResponse{
		PrincipalID: subject.String(),
		PolicyDocument: events.APIGatewayCustomAuthorizerPolicy{
			Version: "2012-10-17",
			Statement: []events.IAMPolicyStatement{{
				Action: []string{"execute-api:Invoke"}, Effect: effect, Resource: []string{stageARN(event.MethodARN)},
			}},
		},
		Context: DecisionContext(r.Answer, subject, tier),
	}
}

// stageARN returns <api>/<stage>/* for the ARN of a method, <api>/<stage>/GET/path.
func stageARN(method string) string {
	parts := strings.SplitN(method, "/", 3)
	if len(parts) < 2 {
		return method
	}
	return parts[0] + "/" + parts[1] + "/*"
}

// headerOf returns the header of an event, which comes with one value a name, or all.
func headerOf(single map[string]string, multi map[string][]string) http.Header {
	h := make(http.Header, max(len(single), len(multi)))
	for name, values := range multi {
		name = http.CanonicalHeaderKey(name)
		h[name] = append(h[name], values...)
	}
	if len(multi) > 0 {
		return h
	}
	for name, value := range single {
		h.Add(name, value)
	}
	return h
}
