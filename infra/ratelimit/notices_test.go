package ratelimit_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/infra/ratelimit"
)

// With a NoticeBus, the function Log may put events on this bus, the logs of functions that make decisions invoke
// it, and these functions sign their notices. In a network, another function sends the notices, because a function in
// the network reaches no bus.
func TestLimits_notices(t *testing.T) {
	for name, c := range map[string]struct {
		store                 ratelimit.Store
		settle, forward       bool
		functions, bus, signs int
	}{
		"without a bus":           {"", true, false, 1, 0, 0},
		"settling and notices":    {"", true, true, 1, 1, 1},
		"notices only":            {"", false, true, 1, 1, 1},
		"in a network":            {ratelimit.ElastiCache, true, true, 2, 1, 1},
		"notices, in a network":   {ratelimit.ElastiCache, false, true, 1, 1, 1},
		"no bus, nothing settles": {"", false, false, 0, 0, 0},
	} {
		app, stack, _ := newAPI(t)
		p := props(t)
		p.Store, p.Reports = c.store, c.settle
		if c.forward {
			p.NoticeBus = awsevents.EventBus_FromEventBusName(stack, jsii.String("Bus"), jsii.String("quotas"))
		}
		ratelimit.NewLimits(stack, jsii.String("Limits"), p)
		made := text(t, assertions.Template_FromStack(stack, nil).ToJSON())
		app.Synth(nil)
		for part, n := range map[string]int{
			`"WEIR_FUNCTION":"log"`: c.functions, `"AWS::Logs::SubscriptionFilter"`: c.signs, `"FilterPattern":"{ $.weir = \"notice\" }"`: c.signs,
			`"events:PutEvents"`: c.bus, `event-bus/quotas"`: c.bus, `"NOTICE_BUS":"quotas"`: c.bus,
			`"Principal":"logs.amazonaws.com","SourceAccount":{"Ref":"AWS::AccountId"},"SourceArn":{"Fn::GetAtt":["LimitsAuthorizerLogs`: c.signs,
			`"SIGN_LINES":"true"`: c.signs,
		} {
			if got := strings.Count(made, part); got != n {
				t.Errorf("%s: got %s %d times, want %d", name, part, got, n)
			}
		}
		if got, want := strings.Contains(made, `"STORE":"memory"`), c.forward && (!c.settle || c.store != ""); got != want {
			t.Errorf("%s: got a function without counters: %t, want %t", name, got, want)
		}
	}
}
