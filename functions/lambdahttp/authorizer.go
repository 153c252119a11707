package lambdahttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/telemetry"
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
func NewAuthorizer(e *Environment) lambda.Handler {
	return authorizer{e, slog.New(telemetry.Sparing(e.Logger.Handler()))}
}

type authorizer struct {
	*Environment
	refused *slog.Logger // has one line of a message a second: anybody can send bad credentials
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
	e.observe(e.Clock(), 0, caller.Caller{}, limiter.Decision{}, err)
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
	now, begun := a.Clock(), time.Now()
	if event.HTTPMethod == http.MethodOptions { // of a method ANY: a preflight has no credential, and is never limited
		return policy(event, "Allow", limiter.Decision{Allowed: true, At: now}, caller.Caller{}, a.Rules.Current()), nil
	}
	a.Events.Begin(now) // goes on beside the store call
	address := caller.ParseAddress(event.RequestContext.Identity.SourceIP)
	path, err := rules.ParsePath(event.Path, a.basePath(event.RequestContext.DomainName))
	if err != nil { // it would run something else than what it is charged for
		from := a.observeMalformed(ctx, now, address)
		return answer(event, "Deny", httplimit.MalformedPath(), from, a.Rules.Current()), nil
	}
	inForce := a.Rules.At(ctx, now)
	defer a.Rules.Settle()
	header := headerOf(event.Headers, event.MultiHeaders)
	from, failed := a.Identifier.Caller(ctx, now, credentials(header, address))
	charges := inForce.Charges(nil, event.HTTPMethod, path, from)
	decision, err := a.Limiter.Take(ctx, now, charges)
	if !decision.Allowed { // that comes before what is wrong with the credential
		failed = err
	}
	a.observe(now, time.Since(begun), from, decision, failed)
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	switch {
	case decision.Failed: // a Deny would be 429
		return nil, errStoreFailed
	case !decision.Allowed:
		return policy(event, "Deny", decision, from, inForce), nil
	case errors.Is(failed, caller.ErrUnverified):
		a.refused.LogAttrs(ctx, slog.LevelError, "caller not verified", slog.Any("err", failed))
		return nil, failed
	case failed != nil:
		a.refused.LogAttrs(ctx, slog.LevelInfo, "credential refused", slog.Any("err", failed))
		return nil, errUnauthorized
	}
	return policy(event, "Allow", decision, from, inForce), nil
}

// policy returns the policy of a decision.
func policy(event *authorizerEvent, effect string, d limiter.Decision, from caller.Caller, r *rules.Rules) *events.APIGatewayCustomAuthorizerResponse {
	return answer(event, effect, httplimit.NewAnswer(d), from, r)
}

// answer returns the policy for the whole stage: API Gateway asks for this request
// only (the result is not cached), and a policy that named a long path would be
// invalid.
func answer(event *authorizerEvent, effect string, a httplimit.Answer, from caller.Caller, r *rules.Rules) *events.APIGatewayCustomAuthorizerResponse {
	return &events.APIGatewayCustomAuthorizerResponse{
		PrincipalID: from.Subject().String(),
		PolicyDocument: events.APIGatewayCustomAuthorizerPolicy{
			Version: "2012-10-17",
			Statement: []events.IAMPolicyStatement{{
				Action: []string{"execute-api:Invoke"}, Effect: effect, Resource: []string{stageARN(event.MethodARN)},
			}},
		},
		Context: DecisionContext(a, from.Subject(), r.Tier(from.Tier)),
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
