package lambdahttp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"

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
			o.Select = e.selecting(func(c limiter.Charge) bool { return !c.Limit.Count.Settles() })
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
	return a.decide(ctx, &event)
}

func (a authorizer) decide(ctx context.Context, event *proxyEvent) ([]byte, error) {
	defer a.Rules.Wait()
	result := a.gate.Decide(ctx, httplimit.Request{
		Method: event.HTTPMethod, Path: rules.EncodedPath(event.Path).Below(a.basePaths(event.RequestContext.DomainName)), Header: event.header(),
		Address: event.address(nil), Appended: true,
	})
	switch result.Class() {
	case telemetry.ClassAllowed:
		report := ""
		if len(result.Reported) > 0 {
			report = a.sealed(ctx, result.Time, result.Reported)
		}
		return a.policy(event, "Allow", result, report)
	case telemetry.ClassRefused:
		return a.policy(event, "Deny", result, "")
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
