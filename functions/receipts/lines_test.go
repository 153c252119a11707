package receipts_test

import (
	"context"
	"errors"
	"testing"

	"github.com/weir-limits/weir/functions/receipts"
	"github.com/weir-limits/weir/limiter/storetest"
)

// A ring verifies only the MAC that it returned for the same line, with its key and in its scope.
func TestRing_Verify(t *testing.T) {
	keys := receipts.NewKeys()
	ring := receipts.Fixed("dev", keys)
	line := []byte(`{"weir":"notice"}`)
	mac := storetest.Must(ring.Sign(ctx, noon, line))
	if err := ring.Verify(ctx, noon, line, mac); err != nil {
		t.Fatalf("got %v, want none", err)
	}
	elsewhere := receipts.NewRing(receipts.Scope{Namespace: "dev", Region: "eu-west-1"}, func(context.Context) (receipts.Keys, error) { return keys, nil })
	for name, c := range map[string]struct {
		ring *receipts.Ring
		line string
		mac  string
	}{
		"another line":      {ring, `{"weir":"notices"}`, mac},
		"no MAC":            {ring, string(line), ""},
		"a part":            {ring, string(line), mac[:42]},
		"a longer MAC":      {ring, string(line), mac + "A"},
		"a sealed receipt":  {ring, string(line), storetest.Must(ring.Seal(ctx, noon, line))},
		"another key":       {receipts.Fixed("dev", receipts.NewKeys()), string(line), mac},
		"another namespace": {receipts.Fixed("prod", keys), string(line), mac},
		"another region":    {elsewhere, string(line), mac},
	} {
		if err := c.ring.Verify(ctx, noon, []byte(c.line), c.mac); !errors.Is(err, receipts.ErrForged) {
			t.Errorf("%s: got %v, want ErrForged", name, err)
		}
	}
	rotated := receipts.Rotated(keys, noon)
	for name, rings := range map[string][2]*receipts.Ring{
		"before to after the rotation": {ring, receipts.Fixed("dev", rotated)},
		"after to before the rotation": {receipts.Fixed("dev", rotated), ring},
	} {
		if err := rings[1].Verify(ctx, noon, line, storetest.Must(rings[0].Sign(ctx, noon, line))); err != nil {
			t.Errorf("%s: got %v, want none", name, err)
		}
	}
	down := errors.New("down")
	failing := receipts.NewRing(receipts.Scope{Namespace: "dev"}, func(context.Context) (receipts.Keys, error) { return receipts.Keys{}, down })
	if err := failing.Verify(ctx, noon, line, mac); !errors.Is(err, down) || errors.Is(err, receipts.ErrForged) {
		t.Errorf("without keys: got %v, want %v", err, down)
	}
}
