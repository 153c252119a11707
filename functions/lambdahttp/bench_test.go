package lambdahttp_test

import (
	"io"
	"testing"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// BenchmarkInvoke measures one event of each function with a store in memory. The request is
// anonymous. The limits refuse it after the first few events.
func BenchmarkInvoke(b *testing.B) {
	e := memory(b)
	e.Recorder = telemetry.New(io.Discard, "dev", nil)
	functions := map[string]func([]byte) ([]byte, error){}
	authorizer, handler := lambdahttp.NewAuthorizer(e), lambdahttp.NewHandler(e, sample.New(e))
	functions["rest-authorizer-anonymous.json"] = func(event []byte) ([]byte, error) { return authorizer.Invoke(ctx, event) }
	functions["http-api-anonymous.json"] = func(event []byte) ([]byte, error) { return handler.Invoke(ctx, event) }
	for name, invoke := range functions {
		b.Run(name, func(b *testing.B) {
			event := sampleEvent(b, name)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := invoke(event); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
