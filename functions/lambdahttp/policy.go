package lambdahttp

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

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
	context := map[string]any{}
	writeContext(a, subject.String(), tier, "", func(key, value string) { context[key] = value })
	return context
}

func writeContext(a httplimit.Answer, subject, tier, receipt string, add func(key, value string)) {
	decision := decisionAllowed
	if a.Problem != nil {
		decision = decisionRefused
	}
	add(keyWeir, decision)
	add(keySubject, subject)
	add(keyTier, tier)
	if a.Over != "" {
		add(keyOver, a.Over)
	}
	if receipt != "" {
		add(contract.KeyReceipt, receipt)
	}
	for _, f := range a.Fields() {
		add(fieldKeys[f[0]], f[1])
	}
	if p := a.Problem; p != nil {
		add(contract.KeyType, p.Type)
		add(contract.KeyError, p.Error)
		add(contract.KeyMessage, p.Message)
		add(contract.KeyLimit, strconv.FormatInt(p.Limit, 10)) // API Gateway may print a number as 1.0E9
		add(contract.KeyWindow, p.Window)
		add(contract.KeyPolicy, strings.Join(p.Violated, ","))
	}
}

// decisionFields returns the header fields in a context. ok reports whether Weir has allowed the
// request. An allowed request can have no fields, because a limit of all callers together does not
// appear in an answer.
func decisionFields(context map[string]string) (fields map[string]string, ok bool) {
	if context[keyWeir] != decisionAllowed {
		return nil, false
	}
	fields = map[string]string{}
	for name, key := range fieldKeys {
		if value := context[key]; value != "" {
			fields[name] = value
		}
	}
	return fields, true
}

// policy returns the policy of a result, for all paths of the stage. This is safe, because API Gateway does not
// cache the policy and uses it for this request only. A policy that contained a long path would be
// invalid. receipt is "" if there is none. An API with the API key source AUTHORIZER finds its usage plan by the
// foreign API key in the policy.
func (a authorizer) policy(event *authorizerEvent, effect string, r httplimit.Result, receipt string) []byte {
	tier := r.Tier
	if tier == "" { // no rule matches the request
		tier = a.Rules.Current().Tier(r.Caller.Tier)
	}
	resource := event.methodARN // such as <api>/<stage>/GET/path
	if api, rest, ok := strings.Cut(resource, "/"); ok {
		stage, _, _ := strings.Cut(rest, "/")
		resource = api + "/" + stage + "/*"
	}
	subject := r.Caller.Subject().String()
	b := make([]byte, 0, 1024+len(receipt))
	b = append(b, `{"principalId":`...)
	b = appendString(b, subject)
	b = append(b, `,"policyDocument":{"Version":"2012-10-17","Statement":[{"Action":["execute-api:Invoke"],"Effect":`...)
	b = appendString(b, effect)
	b = append(b, `,"Resource":[`...)
	b = appendString(b, resource)
	b = append(b, `]}]},"context":{`...)
	writeContext(r.Answer, subject, tier, receipt, func(key, value string) {
		b = appendString(b, key)
		b = append(b, ':')
		b = appendString(b, value)
		b = append(b, ',')
	})
	b[len(b)-1] = '}' // the closing brace replaces the last comma
	if key := a.usageKey(event, &r.Caller); key != "" {
		b = appendString(append(b, `,"usageIdentifierKey":`...), key)
	}
	return append(b, '}')
}

// appendString appends a JSON string. It replaces invalid UTF-8.
func appendString(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // AppendQuote replaces invalid UTF-8 and reports only this replacement as an error
	return b
}
