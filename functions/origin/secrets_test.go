package origin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/origin"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/functions/records/recordstest"
	"github.com/weir-limits/weir/limiter/storetest"
)

// sent returns the header that a distribution sends with secrets, for a client at 203.0.113.7.
func sent(secrets ...string) http.Header {
	return http.Header{contract.OriginSecretField: secrets, contract.ViewerAddressField: {"203.0.113.7"}}
}

// Only a single field with one of the two secrets is valid. The reason contains no part of what the client sent.
func TestViewers_Find_secret(t *testing.T) {
	before := origin.NewSecrets()
	after := before.After(noon)
	current, previous := after.Values()
	for _, c := range []struct {
		name    string
		values  []string
		problem string
	}{
		{"current", []string{current}, ""},
		{"previous", []string{previous}, ""},
		{"none", nil, "missing"},
		{"empty", []string{""}, "wrong"},
		{"twice", []string{current, current}, "repeated"},
		{"a wrong one beside", []string{"x", current}, "repeated"},
		{"both", []string{current, previous}, "repeated"},
		{"joined", []string{current + "," + current}, "wrong"},
		{"a part", []string{current[1:]}, "wrong"},
		{"longer", []string{current + "A"}, "wrong"},
		{"padding", []string{current + "="}, "wrong"},
		{"another case", []string{strings.ToLower(current)}, "wrong"},
		{"of another deployment", []string{func() string { s, _ := origin.NewSecrets().Values(); return s }()}, "wrong"},
		{"huge", []string{strings.Repeat("A", 1<<20)}, "wrong"},
	} {
		for _, refuse := range []bool{false, true} {
			got := viewers("weir", after, refuse).Find(ctx, noon, sent(c.values...), edge, true)
			valid := c.problem == ""
			if got.Direct == valid || got.Refused != (!valid && refuse) || (got.Addr == edge) == valid || got.Problem != strings.TrimSuffix("Weir-Origin-Secret: "+c.problem, map[bool]string{true: "Weir-Origin-Secret: "}[valid]) {
				t.Errorf("%s: got %s, %s, direct %t, refused %t; want problem %q", c.name, got.Addr, got, got.Direct, got.Refused, c.problem)
			}
		}
	}
	first := strings.Repeat("A", 43)
	if got := viewers("weir", origin.Secrets{}, false).Find(ctx, noon, sent(""), edge, true); !got.Direct {
		t.Errorf("no secrets, an empty field: got %s, want a direct request", got)
	}
	if got := viewers("weir", before, false).Find(ctx, noon, sent(first), edge, true); !got.Direct {
		t.Errorf("no previous secret: got %s, want a direct request", got)
	}
}

// A rotation loses no request, although environments read the secrets at different times, operators deploy the
// distribution at any time, and a deployment reaches the edge locations one by one.
func TestRotate_noLoss(t *testing.T) {
	const seed = 27
	random := rand.New(rand.NewPCG(seed, seed))
	table, now := origin.NewSecrets(), noon
	var outage time.Time // when the outage of the table ends
	down := func() bool { return now.Before(outage) }
	load := func(context.Context) (origin.Secrets, error) {
		if down() {
			return origin.Secrets{}, errors.New("down")
		}
		return table, nil
	}
	var environments []*origin.Viewers
	for range 5 {
		environments = append(environments, origin.New(origin.Options{
			Believed: storetest.Must(origin.ParseBelieved("weir")), Refuse: true, Load: load, Logger: slog.New(slog.DiscardHandler),
		}))
	}
	locations := slices.Repeat([]string{table.Sent(now)}, 8)
	target, deployed, rotations := table.Sent(now), now, 0
	for requests := range 20_000 {
		now = now.Add(time.Duration(random.IntN(10_000)) * time.Millisecond)
		switch random.IntN(400) {
		case 0: // the operator deploys the distribution
			target, deployed = table.Sent(now), now
		case 1: // the operator rotates, as far as the command permits it, some time after the last deployment
			if _, previous := table.Values(); !down() && (previous == "" || now.After(table.Rotated().Add(origin.Deploying))) && target == table.Sent(now) && now.After(deployed.Add(30*time.Minute)) {
				table = table.After(now)
				rotations++
				target, deployed = table.Sent(now), now // too early: the distribution must keep the previous secret
			}
		case 2: // an outage of less than an hour; a rotation needs the table
			if now.After(table.Settled()) {
				outage = now.Add(time.Duration(random.IntN(50)) * time.Minute)
			}
		}
		at := random.IntN(len(locations))
		if now.After(deployed.Add(time.Duration(at) * 2 * time.Minute)) {
			locations[at] = target
		}
		e := environments[random.IntN(len(environments))]
		if got := e.Find(ctx, now, sent(locations[at]), edge, true); got.Direct || got.From != "weir" {
			t.Fatalf("seed %d, request %d, %s after the last rotation: got %s, want the address of the client", seed, requests, now.Sub(table.Rotated()), got)
		}
	}
	if rotations < 3 {
		t.Errorf("got %d rotations, want some", rotations)
	}
}

// If the secrets cannot be read, no field counts, and no request is refused. The log has the reason once.
func TestViewers_Find_outage(t *testing.T) {
	var log bytes.Buffer
	v := origin.New(origin.Options{
		Believed: storetest.Must(origin.ParseBelieved("weir")), Refuse: true, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Load: func(context.Context) (origin.Secrets, error) { return origin.Secrets{}, errors.New("no route") },
	})
	for range 100 {
		if got := v.Find(ctx, noon, sent("x"), edge, true); got.Addr != edge || got.Direct || got.Refused || got.Problem != "Weir-Origin-Secret: not verified" {
			t.Fatalf("got %s, %s, direct %t, refused %t; want the source address", got.Addr, got, got.Direct, got.Refused)
		}
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "no route") {
		t.Errorf("log: got %q, want one line with the reason", got)
	}
}

// Without secrets in the table, every request is direct. The secrets act within ten seconds of their creation.
func TestViewers_Find_absent(t *testing.T) {
	secrets, err, reads := origin.Secrets{}, fmt.Errorf("read: %w", origin.ErrNoSecrets), 0
	v := origin.New(origin.Options{
		Believed: storetest.Must(origin.ParseBelieved("weir")), Logger: slog.New(slog.DiscardHandler),
		Load: func(context.Context) (origin.Secrets, error) { reads++; return secrets, err },
	})
	for i := range 100 {
		if got := v.Find(ctx, noon.Add(time.Duration(i)*time.Millisecond), sent("x"), edge, true); !got.Direct || reads != 1 {
			t.Fatalf("got %s after %d reads, want a direct request after 1", got, reads)
		}
	}
	secrets, err = origin.NewSecrets(), nil
	current, _ := secrets.Values()
	if got := v.Find(ctx, noon.Add(10*time.Second), sent(current), edge, true); got.From != "weir" || reads != 2 {
		t.Errorf("after ten seconds: got %s after %d reads, want the address of the client after 2", got, reads)
	}
}

// Concurrent deployments create one secret. They call only the listed actions, on only the listed item.
func TestEnsure(t *testing.T) {
	var calls, reads recordstest.Calls
	client, table := recordstest.Table(t, nil)
	storetest.Must(records.GetConsistent(ctx, new(recordstest.Calls).Client(client), table, contract.OriginSecretsKey)) // opens the connection without the timeout of a function
	if _, err := origin.Read(ctx, client, table); !errors.Is(err, origin.ErrNoSecrets) {
		t.Errorf("before the first deployment: got %v, want ErrNoSecrets", err)
	}
	var wg sync.WaitGroup
	secrets := make([]string, 4)
	for i := range secrets {
		wg.Go(func() { secrets[i] = storetest.Must(origin.Ensure(ctx, calls.Client(client), table, noon)) })
	}
	wg.Wait()
	current, previous := storetest.Must(origin.Read(ctx, reads.Client(client), table)).Values()
	if slices.ContainsFunc(secrets, func(s string) bool { return s != current }) || len(current) != 43 || previous != "" {
		t.Error("got different secrets, want one of 43 characters")
	}
	calls.Want(t, contract.OriginSecretActions())
	reads.Want(t, contract.RecordActions())
	for _, key := range calls.Keys() {
		if key != contract.OriginSecretsKey {
			t.Errorf("items: got %q, want only the item of the secrets", key)
		}
	}
}

// A rotation keeps the previous secret, which distributions send until functions know the new one. The next rotation
// fails for a while. Of concurrent rotations one succeeds.
func TestRotate(t *testing.T) {
	client, table := recordstest.Table(t, nil)
	if err := origin.Rotate(ctx, client, table, noon, false); !errors.Is(err, origin.ErrNoSecrets) {
		t.Errorf("before the first deployment: got %v, want ErrNoSecrets", err)
	}
	first := storetest.Must(origin.Ensure(ctx, client, table, noon))
	if err := origin.Rotate(ctx, client, table, noon, false); err != nil {
		t.Fatal(err)
	}
	current, previous := storetest.Must(origin.Read(ctx, client, table)).Values()
	for after, want := range map[time.Duration]string{0: first, origin.Settling - 1: first, origin.Settling: current} {
		if got := storetest.Must(origin.Ensure(ctx, client, table, noon.Add(after))); got != want || previous != first {
			t.Errorf("%s after a rotation: got the previous secret %t, want it %t", after, got == first, want == first)
		}
	}
	if err := origin.Rotate(ctx, client, table, noon.Add(origin.Deploying), false); !errors.Is(err, origin.ErrInUse) {
		t.Errorf("an early rotation: got %v, want ErrInUse", err)
	}
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = origin.Rotate(ctx, client, table, noon.Add(2*origin.Deploying), false) })
	}
	wg.Wait()
	if failed := len(slices.DeleteFunc(errs, func(err error) bool { return err == nil })); failed != 3 {
		t.Errorf("concurrent rotations: got %d failures, want 3", failed)
	}
	if err := origin.Rotate(ctx, client, table, noon.Add(2*origin.Deploying), true); err != nil {
		t.Errorf("a forced rotation: got %v, want none", err)
	}
}
