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

// The first decision asks for the server's time in its own round trip, on one server and in a
// cluster, also where the script is new to the server.
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
			t.Error("known before any call")
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
			t.Errorf("%s: ahead %s, give or take %s (known %t); want 0: it is one machine", kind, ahead, uncertainty, ok)
		}
		if n := trips.Load(); kind == "server" && (n < 2 || n > 3) { // EVAL, where the script is new
			t.Errorf("%d round trips for two decisions", n)
		}
	}
}

// An access list without TIME costs the estimate, and no decision.
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
		t.Error("known without TIME")
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if err := server.ACLDelUser(context.WithoutCancel(ctx), "timeless").Err(); err != nil {
		t.Error(err)
	}
}
