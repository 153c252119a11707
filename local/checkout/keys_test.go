package checkout_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/apikeys"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/local/checkout"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// The file of a checkout keeps everything that a records table keeps of an API key.
func TestCheckout_Keys(t *testing.T) {
	c := checkout.Checkout{Root: t.TempDir()}
	keys := c.Keys()
	key, made, err := keys.Create(t.Context(), noon, apikeys.Key{ID: "acme", Tier: "paid", Owner: "Acme, Zürich"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := keys.Create(t.Context(), noon, apikeys.Key{ID: "acme"}, false); !errors.Is(err, apikeys.ErrExists) {
		t.Errorf("second key without add: got error %v, want ErrExists", err)
	}
	rate, suspended := caller.Rate{Requests: 7, Window: time.Minute}, true
	for _, n := range []int64{7, 8} {
		rate.Requests = n
		change := apikeys.Change{Suspended: &suspended, Limits: &apikeys.LimitsChange{Rates: map[string]caller.Rate{"search": rate}}}
		if changed, err := keys.Set(t.Context(), noon, "acme", change); err != nil || len(changed) != 1 {
			t.Errorf("set: got %+v, error %v, want one changed key", changed, err)
		}
	}
	r, err := lookup(t, c, key)
	if got, _ := r.Limits.Rate("search"); err != nil || r.ID != "acme" || r.Tier != "paid" || r.Owner != "Acme, Zürich" || !r.Suspended ||
		got != rate {
		t.Errorf("record: got %+v, error %v, want all that was set", r, err)
	}
	list, err := keys.List(t.Context())
	if err != nil || len(list) != 4 || list[0].ID != "acme" || !list[0].Created.Equal(noon) || list[0].Hash != made.Hash {
		t.Errorf("list: got %+v, error %v, want acme and three sample keys", list, err)
	}
	if _, err := keys.Revoke(t.Context(), "acme", ""); err != nil {
		t.Error(err)
	}
	if _, err := lookup(t, c, key); !errors.Is(err, caller.ErrInvalidCredential) {
		t.Errorf("revoked key: got error %v, want ErrInvalidCredential", err)
	}
	if err := os.WriteFile(c.APIKeySecretFile(), []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := keys.Create(t.Context(), noon, apikeys.Key{ID: "acme"}, false); err == nil || !strings.Contains(err.Error(),
		"weir serve creates") {
		t.Errorf("secret of another length: got error %v, want one with the remedy", err)
	}
}

func lookup(t *testing.T, c checkout.Checkout, key string) (caller.Record, error) {
	t.Helper()
	list, err := os.ReadFile(c.APIKeysFile())
	if err != nil {
		t.Fatal(err)
	}
	secret, err := os.ReadFile(c.APIKeySecretFile())
	if err != nil {
		t.Fatal(err)
	}
	keys, err := caller.ParseAPIKeys(list, secret)
	if err != nil {
		t.Fatal(err)
	}
	return keys.Lookup(context.Background(), noon, key)
}
