package lambdahttp_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
)

// An authorizer that verifies its callers with other code can call the limiter. DecisionContext
// converts the decision for the gateway responses and the handler.
func ExampleDecisionContext() {
	r, err := rules.Parse([]byte(`{"rules":[{"endpoint":"/orders","limits":{"paid":{"requests":1,"window":"1m"}}}]}`),
		rules.Options{Version: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	limits, err := limiter.New(store, limiter.Options{}) // functions/boot does this in Config.Environment
	if err != nil {
		fmt.Println(err)
		return
	}
	authorize := func(ctx context.Context, event events.APIGatewayCustomAuthorizerRequestTypeRequest, now time.Time) (effect string,
		policyContext map[string]any, err error) {
		caller := caller.Caller{User: "alice", Tier: "paid"} // a caller that your code has verified
		decision, err := limits.Take(ctx, now, r.Charges(nil, event.HTTPMethod, rules.EncodedPath(event.Path), caller))
		if err != nil {
			return "", nil, err
		}
		effect = "Allow"
		if !decision.Allowed {
			effect = "Deny"
		}
		return effect, lambdahttp.DecisionContext(httplimit.NewAnswer(decision), caller.Subject(), r.Tier(caller.Tier)), nil
	}

	event := events.APIGatewayCustomAuthorizerRequestTypeRequest{HTTPMethod: http.MethodGet, Path: "/orders"}
	for range 2 {
		effect, policyContext, err := authorize(context.Background(), event, time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(effect, policyContext["rateLimitRemaining"], policyContext["policy"])
	}
	// Output:
	// Allow 0 <nil>
	// Deny 0 orders
}
