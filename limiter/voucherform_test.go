package limiter_test

import (
	"bytes"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/storetest"
)

// llm returns the charges of a request on three limits of one subject: tokens, failures and slots.
func llm(tb testing.TB) []limiter.Charge {
	tb.Helper()
	var failures limiter.Statuses
	failures.Add(401)
	failures.Add(429)
	failures.Add(500)
	return []limiter.Charge{
		{Subject: user, Limit: limit(tb, limiter.Limit{Name: "tokens", Rate: algo.Rate{Requests: 2_000_000, Calendar: algo.Calendar{Period: algo.Month, Zone: "America/Argentina/ComodRivadavia", Anchor: "31"}}, Version: 1_790_000_000, Count: limiter.Count{Of: limiter.CountCost, Field: "X-Tokens"}}), Cost: 4000},
		{Subject: user, Limit: limit(tb, limiter.Limit{Name: "failures", Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: 10, Window: time.Minute}, Version: 1_790_000_000, Count: limiter.Count{Of: limiter.CountFailures, Failures: failures}}), Cost: 1},
		{Subject: user, Limit: limit(tb, limiter.Limit{Name: "exports", Rate: algo.Rate{Requests: 10, Window: time.Minute}, Version: 1_790_000_000, Count: limiter.Count{Of: limiter.CountConcurrent}}), Cost: 1},
	}
}

// vouchers returns the binary forms of vouchers with every kind of limit.
func vouchers(tb testing.TB) (all [][]byte) {
	tb.Helper()
	l := storetest.Must(limiter.New(newRemote(), limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
	log := limit(tb, limiter.Limit{Name: "log", Rate: algo.Rate{Algorithm: algo.SlidingLog, Requests: 10, Window: time.Minute}})
	newer := limit(tb, limiter.Limit{Name: "a", Version: 2, Rate: algo.Rate{Requests: 70, Window: time.Hour}})
	if _, err := l.Take(ctx, noon, []limiter.Charge{{Subject: other, Limit: newer, Cost: 1}}); err != nil {
		tb.Fatal(err)
	}
	for _, charges := range [][]limiter.Charge{
		llm(tb),
		// Newer rules decide the charge of other.
		{{Subject: limiter.Global().And(user), Limit: log, Cost: 3}, {Subject: other, Limit: perMinute(tb, "a", 10), Cost: 2}},
	} {
		_, receipt, err := l.TakeRefundable(ctx, noon, charges)
		if err != nil {
			tb.Fatal(err)
		}
		v, err := receipt.Voucher(limiter.VoucherID{1, 2, 3}, noon.Add(time.Minute))
		if err != nil {
			tb.Fatal(err)
		}
		data, err := v.MarshalBinary()
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, data)
	}
	return all
}

// The binary form of a voucher with three limits is short enough for an authorizer's context. It keeps
// the data that reports and refunds need.
func TestVoucher_MarshalBinary(t *testing.T) {
	data := vouchers(t)
	t.Logf("three limits: %d bytes", len(data[0]))
	if len(data[0]) > 400 {
		t.Errorf("three limits: got %d bytes, want at most 400", len(data[0]))
	}
	var v limiter.Voucher
	if err := v.UnmarshalBinary(data[0]); err != nil {
		t.Fatal(err)
	}
	if v.ID != (limiter.VoucherID{1, 2, 3}) || !v.At.Equal(noon) || !v.Expires.Equal(noon.Add(time.Minute)) {
		t.Errorf("got %s at %s until %s", v.ID, v.At, v.Expires)
	}
	want := llm(t)
	for i, c := range v.Charges() {
		w := want[i].Limit
		if c.Subject != want[i].Subject || c.Cost != want[i].Cost || c.Force {
			t.Errorf("charge %d: got %+v, want %+v", i, c, want[i])
		}
		if l := c.Limit; l.ID != w.ID || l.Name != w.Name || l.Version != w.Version || l.Horizon != w.Horizon || l.Count != w.Count || l.Fingerprint() != w.Fingerprint() || l.Machine().Fingerprint() != w.Fingerprint() {
			t.Errorf("limit %d: got %+v, want %+v", i, l, w)
		}
	}
}

// A limit whose cost field or horizon is too long for a voucher causes an error.
func TestVoucher_MarshalBinary_bounds(t *testing.T) {
	for _, l := range []limiter.Limit{
		{Horizon: 4 * algo.MaxPeriod},
		{Count: limiter.Count{Of: limiter.CountCost, Field: strings.Repeat("x", 65)}},
	} {
		l.Name, l.Rate = "a", algo.Rate{Requests: 10, Window: time.Minute}
		e := storetest.Must(limiter.New(newRemote(), limiter.Options{}))
		_, receipt, err := e.TakeRefundable(ctx, noon, []limiter.Charge{{Subject: user, Limit: limit(t, l), Cost: 1}})
		if err != nil {
			t.Fatal(err)
		}
		v, err := receipt.Voucher(limiter.NewVoucherID(), noon.Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if data, err := v.MarshalBinary(); err == nil {
			t.Errorf("got %x, want an error", data)
		}
	}
}

// A truncated or extended voucher causes an error, and leaves the receiver unchanged.
func TestVoucher_UnmarshalBinary_cut(t *testing.T) {
	for _, data := range vouchers(t) {
		for n := range data {
			v := limiter.Voucher{At: noon}
			if err := v.UnmarshalBinary(data[:n]); err == nil || !reflect.DeepEqual(v, limiter.Voucher{At: noon}) {
				t.Fatalf("%d of %d bytes: got %+v, %v; want an error", n, len(data), v, err)
			}
		}
		var v limiter.Voucher
		if err := v.UnmarshalBinary(append(bytes.Clone(data), 0)); err == nil {
			t.Error("one byte more: got no error, want one")
		}
		if err := v.UnmarshalBinary(make([]byte, 1<<20)); err == nil {
			t.Error("1 MB: got no error, want one")
		}
	}
}

// Data either cause an error or are a voucher that a store can settle, with bounded costs and instants.
func FuzzVoucher(f *testing.F) {
	for _, data := range vouchers(f) {
		f.Add(data, int64(0))
		f.Add(data, int64(1)<<62)
	}
	quiet := slog.New(slog.DiscardHandler)
	f.Fuzz(func(t *testing.T, data []byte, cost int64) {
		var v limiter.Voucher
		if v.UnmarshalBinary(data) != nil {
			return
		}
		again, err := v.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var next limiter.Voucher
		if err := next.UnmarshalBinary(again); err != nil || !reflect.DeepEqual(v.Charges(), next.Charges()) || next.ID != v.ID || !next.At.Equal(v.At) || !next.Expires.Equal(v.Expires) {
			t.Fatalf("got %+v, %v; want %+v", next, err, v)
		}
		if life := v.Expires.Sub(v.At); life <= 0 || life > limiter.MaxVoucherLife || v.At.Unix() < 0 {
			t.Fatalf("got a voucher from %s to %s", v.At, v.Expires)
		}
		for _, c := range v.Charges() {
			if c.Cost < 1 || c.Cost > algo.MaxRequests || len(c.Subject.String()) > limiter.MaxSubject+10 {
				t.Fatalf("got %+v", c)
			}
		}
		l := storetest.Must(limiter.New(newRemote(), limiter.Options{Logger: quiet}))
		_, _ = l.SettleVoucher(ctx, v.At, &v, func(limiter.Charge) int64 { return cost })
		_, _ = l.SettleVoucher(ctx, v.At, &v, func(limiter.Charge) int64 { return 0 })
	})
}

// Values that no receipt has cause an error: a cost above the capacity, a subject that is no key, a life
// out of range, an instant before 1970, and numbers out of range.
func TestVoucher_UnmarshalBinary_bounds(t *testing.T) {
	l := storetest.Must(limiter.New(newRemote(), limiter.Options{}))
	v := voucher(t, l, []limiter.Charge{{Subject: user, Limit: perMinute(t, "a", 90), Cost: 90}})
	data, err := v.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	const at, life, lifeSize = 17, 25, 6
	edit := func(offset, length int, with ...byte) []byte {
		return append(append(bytes.Clone(data[:offset]), with...), data[offset+length:]...)
	}
	for name, hostile := range map[string][]byte{
		"format":      edit(0, 1, 2),
		"capacity":    bytes.Replace(data, []byte("/1m0s/90"), []byte("/1m0s/89"), 1),
		"fingerprint": bytes.Replace(data, []byte("/1m0s/90"), []byte("/60s00/90"), 1),
		"subject":     bytes.Replace(data, []byte("\x0242"), []byte("\x024}"), 1),
		"no life":     edit(life, lifeSize, 0),
		"long life":   edit(life, lifeSize, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10),
		"overflow":    edit(life, lifeSize, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
		"before 1970": edit(at, 1, 0xff),
		"subjects":    edit(life+lifeSize, 1, 17),
		"kind":        edit(life+lifeSize+1, 1, 4),
		"charges":     edit(life+lifeSize+5, 1, 11),
		"flags":       edit(life+lifeSize+6, 1, 0x80),
	} {
		var v limiter.Voucher
		if bytes.Equal(hostile, data) {
			t.Errorf("%s: got the valid voucher, want another", name)
		}
		if err := v.UnmarshalBinary(hostile); err == nil {
			t.Errorf("%s: got %+v, want an error", name, v.Charges())
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
}
