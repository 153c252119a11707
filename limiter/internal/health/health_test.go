package health

import (
	"context"
	"testing"

	"github.com/weir-limits/weir/limiter/internal/domain"
)

// A timeout while the store answers other calls is that of a busy subject: it does not mean that the store fails.
func TestHealth_Observe(t *testing.T) {
	var h Health
	for i, c := range []struct {
		before        int64
		err           error
		busy, failing bool
	}{{0, nil, false, false}, {0, context.DeadlineExceeded, true, false}, {1, context.DeadlineExceeded, false, true},
		{0, context.DeadlineExceeded, true, true}, {1, nil, false, false}} {
		if err := h.Observe(c.before, c.err); domain.Busy(err) != c.busy || h.Failing() != c.failing {
			t.Errorf("call %d: got error %v and failing %t, want busy %t and failing %t", i, err, h.Failing(), c.busy, c.failing)
		}
	}
}
