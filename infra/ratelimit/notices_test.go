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
// the network reaches no bus. The same is true of the list of distributions, which the viewer function reads.
func TestLimits_notices(t *testing.T) {
	for name, c := range map[string]struct {
		store                 ratelimit.Store
		settle, forward, edge bool
		functions, bus, signs int
	}{
		"without a bus":           {"", true, false, false, 1, 0, 0},
		"settling and notices":    {"", true, true, false, 1, 1, 1},
		"notices only":            {"", false, true, false, 1, 1, 1},
		"in a network":            {ratelimit.ElastiCache, true, true, false, 2, 1, 1},
		"notices, in a network":   {ratelimit.ElastiCache, false, true, false, 1, 1, 1},
		"no bus, nothing settles": {"", false, false, false, 0, 0, 0},
		"a list only":             {"", false, false, true, 1, 0, 1},
		"settling and a list":     {"", true, false, true, 1, 0, 1},
		"a bus and a list":        {"", false, true, true, 1, 1, 1},
		"a list, in a network":    {ratelimit.ElastiCache, true, false, true, 2, 0, 1},
	} {
		app, stack, _ := newAPI(t)
		p := props(t)
		p.Store, p.Settle = c.store, c.settle
		if c.forward {
			p.NoticeBus = awsevents.EventBus_FromEventBusName(stack, jsii.String("Bus"), jsii.String("quotas"))
		}
		lists, pattern := 0, `{ $.weir = \"notice\" }`
		if c.edge {
			p.ViewerAddress, lists = "weir", 1
			pattern = `{ $.weir = \"edge\" }`
		}
		if c.edge && c.forward {
			pattern = `{ ($.weir = \"notice\") || ($.weir = \"edge\") }`
		}
		l := ratelimit.NewLimits(stack, jsii.String("Limits"), p)
		if c.edge {
			l.NewDistribution(stack, "front", ratelimit.DistributionProps{Host: "api.example"})
		}
		made := text(t, assertions.Template_FromStack(stack, nil).ToJSON())
		app.Synth(nil)
		for part, n := range map[string]int{
			`"WEIR_FUNCTION":"log"`: c.functions, `"AWS::Logs::SubscriptionFilter"`: c.signs, `"FilterPattern":"` + pattern + `"`: c.signs, `"events:PutEvents"`: c.bus, `event-bus/quotas"`: c.bus, `"NOTICE_BUS":"quotas"`: c.bus,
			`"Principal":"logs.amazonaws.com","SourceAccount":{"Ref":"AWS::AccountId"},"SourceArn":{"Fn::GetAtt":["LimitsAuthorizerLogs`: c.signs, `"SIGN_LINES":"true"`: c.signs,
			`"AWS::CloudFront::KeyValueStore"`: lists, `"EDGE_DELAY":"10s"`: lists, `"EDGE_LIST":{"Fn::GetAtt":["LimitsList`: 2 * lists, `"KeyValueStoreAssociations":[{"KeyValueStoreARN":{"Fn::GetAtt":["LimitsList`: lists, `cloudfront-keyvaluestore:UpdateKeys`: 2 * lists, // Log and Publisher
		} {
			if got := strings.Count(made, part); got != n {
				t.Errorf("%s: got %s %d times, want %d", name, part, got, n)
			}
		}
		if got, want := strings.Contains(made, `"STORE":"memory"`), (c.forward || c.edge) && (!c.settle || c.store != ""); got != want {
			t.Errorf("%s: got a function without counters: %t, want %t", name, got, want)
		}
	}
}
