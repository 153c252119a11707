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

// A rotation loses no request, although environments read the secrets at different times, operators rotate and deploy the
// distribution at any time, forget to change the text or roll back, and a deployment reaches the edge locations one by one.
func TestRotate_noLoss(t *testing.T) {
	const seed = 27
	random := rand.New(rand.NewPCG(seed, seed))
	table, now := records.NewPair(), noon
	var outage time.Time // when the outage of the table ends
	down := func() bool { return now.Before(outage) }
	load := func(context.Context) (origin.Secrets, error) {
		if down() {
			return origin.Secrets{}, errors.New("down")
		}
		return origin.FromPair(table), nil
	}
	var environments []*origin.Viewers
	for range 5 {
		environments = append(environments, origin.New(origin.Options{
			Believed: storetest.Must(origin.ParseBelieved("weir")), Refuse: true, Load: load, Logger: slog.New(slog.DiscardHandler),
		}))
	}
	text, target, deployed := "", storetest.Must(origin.DeployPair(&table, "", now)), now
	locations := slices.Repeat([]string{target}, 8)
	rotations, early, rejected := 0, 0, 0
	// deploy deploys the distribution with a text. CloudFormation asks for the secret only if the text is new, and sends
	// the old text again if this fails.
	deploy := func(next string) {
		if down() || next == text {
			return
		}
		secret, err := origin.DeployPair(&table, next, now)
		if err != nil {
			early++
			secret = storetest.Must(origin.DeployPair(&table, text, now))
			next = text
		}
		text, target, deployed = next, secret, now
	}
	for requests := range 40_000 {
		now = now.Add(time.Duration(random.IntN(10_000)) * time.Millisecond)
		switch random.IntN(400) {
		case 0:
			deploy(fmt.Sprint("rotation ", requests))
		case 1: // a deployment that fails later
			before := text
			deploy(fmt.Sprint("rotation ", requests))
			deploy(before)
		case 2:
			if down() {
				break
			}
			if origin.PermitPair(table, now) != nil {
				rejected++
				break
			}
			table = table.Next(now)
			rotations++
			if random.IntN(2) == 0 {
				deploy(fmt.Sprint("rotation ", requests)) // too early
			}
		case 3: // an outage of less than an hour
			if now.After(origin.FromPair(table).Settled()) && now.After(outage.Add(10*time.Minute)) { // an outage soon after another is a longer one
				outage = now.Add(time.Duration(random.IntN(50)) * time.Minute)
			}
		}
		at := random.IntN(len(locations))
		if now.After(deployed.Add(time.Duration(at) * 2 * time.Minute)) {
			locations[at] = target
		}
		e := environments[random.IntN(len(environments))]
		if got := e.Find(ctx, now, sent(locations[at]), edge, true); got.Direct || got.From != "weir" {
			t.Fatalf("seed %d, request %d, %s after the last rotation: got %s, want the address of the client", seed, requests, now.Sub(table.Rotated), got)
		}
	}
	if rotations < 3 || early == 0 || rejected == 0 {
		t.Errorf("got %d rotations, %d early deployments and %d rejected rotations, want some", rotations, early, rejected)
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

// Known secrets count for an hour after their item was deleted. Warm reads them before the first request.
func TestViewers_Find_deleted(t *testing.T) {
	secrets, err, reads := origin.NewSecrets(), error(nil), 0
	v := origin.New(origin.Options{
		Believed: storetest.Must(origin.ParseBelieved("weir")), Refuse: true, Logger: slog.New(slog.DiscardHandler),
		Load: func(context.Context) (origin.Secrets, error) { reads++; return secrets, err },
	})
	current, _ := secrets.Values()
	if err := v.Warm(ctx, noon); err != nil {
		t.Fatal(err)
	}
	if got := v.Find(ctx, noon, sent(current), edge, true); got.From != "weir" || reads != 1 {
		t.Errorf("the first request: got %s after %d reads, want the address of the client after 1", got, reads)
	}
	err = origin.ErrNoSecrets
	for after := time.Minute; after < time.Hour; after += time.Minute {
		if got := v.Find(ctx, noon.Add(after), sent(current), edge, true); got.From != "weir" {
			t.Fatalf("%s later, without the item: got %s, refused %t; want the address of the client", after, got, got.Refused)
		}
	}
	if got := v.Find(ctx, noon.Add(2*time.Hour), sent(current), edge, true); got.From != "source" || got.Refused {
		t.Errorf("two hours later: got %s, refused %t; want the source address", got, got.Refused)
	}
}

// A rotation keeps the previous secret, which distributions send until functions know the new one. The next rotation
// fails until a distribution has the new one. Of concurrent rotations one succeeds.
func TestRotate(t *testing.T) {
	client, table := recordstest.Table(t, nil)
	rotate := func(at time.Time, force bool) error { return origin.Rotate(ctx, client, table, "prod", at, force) }
	deploy := func(text string, at time.Time) (string, error) {
		return origin.Deploy(ctx, client, table, "prod", text, at)
	}
	if err := rotate(noon, false); !errors.Is(err, origin.ErrNoSecrets) {
		t.Errorf("before the first deployment: got %v, want ErrNoSecrets", err)
	}
	first := storetest.Must(deploy("a", noon))
	if err := rotate(noon, false); err != nil {
		t.Fatal(err)
	}
	current, previous := storetest.Must(origin.Read(ctx, client, table, "prod")).Values()
	early := noon.Add(origin.Settling - 1)
	if _, err := deploy("b", early); !errors.Is(err, origin.ErrUnsettled) || !strings.Contains(err.Error(), "2026-03-04T12:15:00Z") {
		t.Errorf("a new text just after a rotation: got %v, want ErrUnsettled and a time", err)
	}
	if got := storetest.Must(deploy("a", early)); got != first || previous != first {
		t.Error("a rollback just after a rotation: got another secret, want the previous one")
	}
	later := noon.Add(3 * origin.Deploying)
	if err := rotate(later, false); !errors.Is(err, origin.ErrInUse) {
		t.Errorf("a rotation without a deployment: got %v, want ErrInUse", err)
	}
	if got := storetest.Must(deploy("b", later)); got != current {
		t.Error("a new text: got another secret, want the current one")
	}
	if err := rotate(later.Add(origin.Deploying), false); !errors.Is(err, origin.ErrInUse) {
		t.Errorf("a rotation during a deployment: got %v, want ErrInUse", err)
	}
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = rotate(later.Add(2*origin.Deploying), false) })
	}
	wg.Wait()
	if failed := len(slices.DeleteFunc(errs, func(err error) bool { return err == nil })); failed != 3 {
		t.Errorf("concurrent rotations: got %d failures, want 3", failed)
	}
	if err := rotate(later.Add(2*origin.Deploying), true); err != nil {
		t.Errorf("a forced rotation: got %v, want none", err)
	}
}
