package redisstore_test

import (
	"context"
	"crypto/rand"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/redisstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// The first decision reads the server's time without an additional round trip. This holds on one server,
// in a cluster, and for a script that is new to the server.
func TestStore_ClockSkew(t *testing.T) {
	for _, kind := range []string{"server", "cluster"} {
		var trips atomic.Int64
		var u users
		if kind == "cluster" {
			_, u = cluster(t)
		} else {
			u = deployed(t)
			u.function.AddHook(counter{&trips})
		}
		s := newStore(t, u.function, redisstore.Options{Namespace: "skew-" + rand.Text()})
		if _, _, ok := s.ClockSkew(); ok {
			t.Error("skew before any call: got a known skew, want unknown")
		}
		who := caller()
		charges := []limiter.Charge{{Subject: who, Limit: storetest.Limit(t, "a", algo.Rate{Requests: 10, Window: time.Minute}), Cost: 1}}
		for range 2 {
			if ok, err := s.Take(ctx, noon, who, charges, make([]algo.Result, 1)); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		ahead, uncertainty, ok := s.ClockSkew()
		if !ok || ahead.Abs() > uncertainty+time.Millisecond {
			t.Errorf("%s: skew: got %s ± %s (known %t), want 0 on one machine", kind, ahead, uncertainty, ok)
		}
		if n := trips.Load(); kind == "server" && (n < 2 || n > 3) { // a new script needs EVAL, which is an additional round trip
			t.Errorf("two decisions: got %d round trips, want 2 or 3", n)
		}
	}
}

// If the access list denies TIME, there is no skew estimate, and decisions still succeed.
func TestStore_ClockSkew_denied(t *testing.T) {
	server := local(t)
	access := strings.ReplaceAll(redisstore.AccessString(redisstore.Commands()...), " +time", "")
	if err := server.Do(ctx, anyOf("acl setuser timeless >secret "+access)...).Err(); err != nil {
		t.Fatal(err)
	}
	o := *server.Options()
	o.Username, o.Password, o.DisableIdentity = "timeless", "secret", true
	client := redis.NewClient(&o)
	s, who := newStore(t, client, redisstore.Options{Namespace: "timeless"}), caller()
	take(t, s, noon, limiter.Charge{Subject: who, Limit: storetest.Limit(t, "a", algo.Rate{Requests: 10, Window: time.Minute}), Cost: 1})
	if _, _, ok := s.ClockSkew(); ok {
		t.Error("skew without TIME: got a known skew, want unknown")
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if err := server.ACLDelUser(context.WithoutCancel(ctx), "timeless").Err(); err != nil {
		t.Error(err)
	}
}
