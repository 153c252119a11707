package gateway_test

import (
	"cmp"
	"encoding/json"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/gateway"
)

// stack returns the stack of the recording. Both of its APIs have the same routes.
func (r recording) stack(t testing.TB) *gateway.Stack {
	t.Helper()
	resources := map[string]any{}
	for kind, properties := range r.Responses {
		properties.(map[string]any)["ResponseType"] = kind
		resources[kind] = map[string]any{"Type": "AWS::ApiGateway::GatewayResponse", "Properties": properties}
	}
	document, err := json.Marshal(map[string]any{"Resources": resources})
	if err != nil {
		t.Fatal(err)
	}
	s, err := gateway.ReadStack(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, stage := range []*gateway.Stage{&s.REST, &s.HTTP} {
		stage.Name = r.Stage
		if r.Wait > 0 {
			stage.Wait = time.Duration(r.Wait) * time.Millisecond
		}
		if r.Burst > 0 {
			stage.Throttle = storetest.Must(gateway.Throttle(r.Rate, r.Burst))
		}
	}
	s.Handler.Timeout = time.Duration(cmp.Or(r.Timeout, 60)) * time.Second
	s.Authorizer.Timeout = 5 * time.Second
	return s
}
