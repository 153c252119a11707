package decisionlog_test

import (
	"fmt"
	"testing"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/decisionlog"
)

func BenchmarkPublisher_Record(b *testing.B) {
	o := options(&broker{})
	o.OneIn = 1_000_000
	p := decisionlog.New(o)
	for _, d := range []limiter.Decision{allowed, refused} {
		b.Run(fmt.Sprintf("allowed=%t", d.Allowed), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Record(outcomeOf(noon, 0, alice, d, nil))
			}
		})
	}
}
