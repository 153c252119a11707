package lambdahttp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// errUnauthorized has the exact text that makes API Gateway answer 401. Any other error means that the
// authorizer failed, and API Gateway answers with the static 503 of its AUTHORIZER_* responses.
var errUnauthorized = errors.New("Unauthorized")

// defaultAPIKeyHeader is the header field of API keys if Environment.APIKeyHeader is empty.
const defaultAPIKeyHeader = "X-Api-Key"

// maxUsageKey is the length of the longest API key of API Gateway.
const maxUsageKey = 128

var errStoreFailed = errors.New("the store failed, and a rule has on_error deny")

// NewAuthorizer returns the authorizer function. It answers an event with a policy. The policy allows
// the request, or denies it if it exceeds a limit. For a bad credential the function returns the
// error "Unauthorized". If there is no decision, it returns another error.
func NewAuthorizer(e *Environment) lambda.Handler {
	e.Recorder.CountErrors(lambdacontext.FunctionName)
	return authorizer{e, e.gate(func(o *httplimit.Options) {
		o.Reported = !e.WeirBehind
		if e.WeirBehind {
			o.Select = e.selecting(withoutCounts)
		}
	})}
}

type authorizer struct {
	*Environment
	gate *httplimit.Gate
}

// Invoke implements lambda.Handler.
func (a authorizer) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	var event proxyEvent
	err := json.Unmarshal(payload, &event)
	if err == nil && event.Type != "REQUEST" {
		err = fmt.Errorf("got type %q, want REQUEST; an event of a TOKEN authorizer lacks the request", event.Type)
	}
	if err != nil {
		return nil, a.undecided(fmt.Errorf("authorizer event: %w", err))
	}
	defer a.Rules.Wait()
	result := a.gate.Decide(ctx, httplimit.Request{
		Method: event.HTTPMethod, Path: rules.EncodedPath(event.Path).Below(a.basePaths(event.RequestContext.DomainName)), Header: event.header(),
		Address: caller.ParseAddress(event.RequestContext.Identity.SourceIP), Appended: true,
	})
	switch result.Class() {
	case telemetry.ClassAllowed:
		report := ""
		if len(result.Reported) > 0 {
			report = a.sealed(ctx, result.Time, result.Reported)
		}
		return a.policy(&event, "Allow", result, report)
	case telemetry.ClassRefused:
		return a.policy(&event, "Deny", result, "")
	case telemetry.ClassUnauthorized:
		return nil, errUnauthorized
	default: // an error, because API Gateway would answer Deny with 429
		return nil, cmp.Or(result.Err, errStoreFailed)
	}
}

// usageKey returns the key of a usage plan: a foreign key, also one that identifies the caller, or what x-api-key contains
// if Weir does not read this field.
func (a authorizer) usageKey(event *proxyEvent, who *caller.Caller) string {
	header, field := event.header(), a.apiKeyHeader()
	if keys := header[field]; !who.ForeignKey && (who.APIKey == "" || len(keys) != 1 || !caller.IsForeignKey(keys[0])) {
		if _, reads := a.Identifier.Identifies(); reads && field == defaultAPIKeyHeader {
			return ""
		}
		field = defaultAPIKeyHeader
	}
	if keys := header[field]; len(keys) == 1 && len(keys[0]) <= maxUsageKey {
		return keys[0]
	}
	return ""
}

// A REST API's authorizer returns its decision in the context of its policy, a map of strings. For a
// 429, a gateway response copies values of the context into the headers (as context.authorizer.<key>).
// For an allowed request, the handler copies values of the context into the headers of its answer.
//
// The body template of a gateway response escapes nothing. So the values for the body
// (contract.BodyKeys) contain no character that breaks a JSON string. Only values for headers contain
// quotes. A refusal always has all values for the body: if no limit refused, the limit is 0, and the
// window and the policy are empty. If a value for a header is missing, the answer has no such header.

// Only this package or people read these keys of the context.
const (
	keyWeir    = "weir" // decisionAllowed or decisionRefused
	keySubject = "subject"
	keyTier    = "tier"
	keyOver    = "over" // httplimit.Answer.Over; absent if it is empty

	decisionAllowed = "allowed"
	decisionRefused = "refused"
)

var fieldKeys = contract.FieldKeys()

// DecisionContext returns the context of an authorizer's policy. The gateway responses of
// infra/ratelimit and [NewHandler] read it. subject is the subject of the decision, and tier is the
// tier that selected the limits.
func DecisionContext(a httplimit.Answer, subject limiter.Subject, tier string) map[string]any {
	context := map[string]any{keyWeir: decisionAllowed, keySubject: subject.String(), keyTier: tier}
	if a.Over != "" {
		context[keyOver] = a.Over
	}
	for _, f := range a.Fields() {
		context[fieldKeys[f[0]]] = f[1]
	}
	if p := a.Problem; p != nil {
		context[keyWeir] = decisionRefused
		context[contract.KeyType] = p.Type
		context[contract.KeyError] = p.Error
		context[contract.KeyMessage] = p.Message
		context[contract.KeyWait] = "null" // a number in the body
		if p.Wait > 0 {
			context[contract.KeyWait] = strconv.FormatInt(p.Wait, 10)
		}
		context[contract.KeyLimit] = strconv.FormatInt(p.Limit, 10) // API Gateway may print a number as 1.0E9
		context[contract.KeyWindow] = p.Window
		context[contract.KeyPolicy] = strings.Join(p.Violated, ",")
	}
	return context
}

// decisionOf returns the answer in a context. ok reports whether Weir has allowed the request. The answer can have no
// fields, because it does not show a limit of all callers together.
func decisionOf(context map[string]string) (answer httplimit.Answer, ok bool) {
	if context[keyWeir] != decisionAllowed {
		return answer, false
	}
	answer = httplimit.AnswerOf(func(field string) string { return context[fieldKeys[field]] })
	answer.Over = context[keyOver]
	return answer, true
}

// policy returns the policy of a result, for all paths of the stage. This is safe, because API Gateway does not
// cache the policy and uses it for this request only. A policy that contained a long path would be
// invalid. report is "" if there is none. An API with the API key source AUTHORIZER finds its usage plan by the
// foreign API key in the policy.
func (a authorizer) policy(event *proxyEvent, effect string, r httplimit.Result, report string) ([]byte, error) {
	tier := r.Tier
	if tier == "" { // no rule matches the request
		tier = a.Rules.Current().TierOf(&r.Caller)
	}
	resource := event.MethodARN // such as <api>/<stage>/GET/path
	if api, rest, ok := strings.Cut(resource, "/"); ok {
		stage, _, _ := strings.Cut(rest, "/")
		resource = api + "/" + stage + "/*"
	}
	context := DecisionContext(r.Answer, r.Caller.Subject(), tier)
	if report != "" {
		context[contract.KeyReport] = report
	}
	return json.Marshal(events.APIGatewayCustomAuthorizerResponse{
		PrincipalID: r.Caller.Subject().String(),
		PolicyDocument: events.APIGatewayCustomAuthorizerPolicy{
			Version: "2012-10-17", Statement: []events.IAMPolicyStatement{{Action: []string{"execute-api:Invoke"}, Effect: effect,
				Resource: []string{resource}}},
		},
		Context: context, UsageIdentifierKey: a.usageKey(event, &r.Caller),
	})
}
