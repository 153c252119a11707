package receipts_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/functions/receipts"
	"github.com/weir-limits/weir/limiter/storetest"
)

// A ring reads the keys once a minute. While the table fails, it uses the keys for a quarter of an hour.
// Without keys, Open does not return ErrForged.
func TestRing_table(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, reads := receipts.NewKeys(), 0
		down := errors.New("down")
		failed := down
		ring := receipts.NewRing(receipts.Scope{Namespace: "dev"}, func(context.Context) (receipts.Keys, error) { reads++; return keys, failed })
		want := func(when string, after time.Duration, err error, wantReads int) {
			t.Helper()
			text := storetest.Must(receipts.Fixed("dev", keys).Seal(ctx, noon, nil))
			if _, got := ring.Open(ctx, noon.Add(after), text); !errors.Is(got, err) || errors.Is(got, receipts.ErrForged) || reads != wantReads {
				t.Errorf("%s: open: got %v after %d reads, want %v after %d", when, got, reads, err, wantReads)
			}
			if _, got := ring.Seal(ctx, noon.Add(after), nil); !errors.Is(got, err) || reads != wantReads {
				t.Errorf("%s: seal: got %v after %d reads, want %v after %d", when, got, reads, err, wantReads)
			}
		}
		want("the table fails", 0, down, 1)
		failed = nil
		want("a second later", time.Second, nil, 2)
		want("fresh keys", time.Minute, nil, 2)
		want("a minute later", time.Minute+time.Second, nil, 3)
		failed = down
		want("an outage", 3*time.Minute, nil, 4)
		want("soon after a failure", 3*time.Minute+9*time.Second, nil, 4)
		want("a long outage", time.Minute+time.Second+receipts.Stale, down, 5)
	})
}
