package lambdahttp

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/aws/aws-lambda-go/events"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/httplimit"
)

// A REST API's authorizer returns its decision in the context of its policy, a map of strings. For a
// 429, a gateway response copies values of the context into the headers (as context.authorizer.<key>).
// For an allowed request, the handler copies values of the context into the headers of its answer.
//
// The body template of a gateway response escapes nothing. So the values for the body
// (contract.BodyKeys) contain no character that breaks a JSON string. Only values for headers contain
// quotes. A refusal always has all values for the body: if no limit refused, the limit is 0, and the
// window and the policy are empty. If a value for a header is missing, the answer has no such header
// (row rest-missing-value of `weir verify`).

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
	return policyContext(a, subject.String(), tier, "")
}

func policyContext(a httplimit.Answer, subject, tier, report string) map[string]any {
	context := map[string]any{keyWeir: decisionAllowed, keySubject: subject, keyTier: tier}
	if a.Over != "" {
		context[keyOver] = a.Over
	}
	if report != "" {
		context[contract.KeyReport] = report
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
	return httplimit.AnswerOf(func(field string) string { return context[fieldKeys[field]] }), true
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
	subject := r.Caller.Subject().String()
	return json.Marshal(events.APIGatewayCustomAuthorizerResponse{
		PrincipalID: subject,
		PolicyDocument: events.APIGatewayCustomAuthorizerPolicy{
			Version: "2012-10-17", Statement: []events.IAMPolicyStatement{{Action: []string{"execute-api:Invoke"}, Effect: effect,
				Resource: []string{resource}}},
		},
		Context: policyContext(r.Answer, subject, tier, report), UsageIdentifierKey: a.usageKey(event, &r.Caller),
	})
}
