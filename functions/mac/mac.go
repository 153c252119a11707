// Package mac makes the MACs of texts that one function of a deployment writes and another acts on, although other code can
// write or repeat them on the way: the value with which a back end reports costs.
//
// A MAC is HMAC-SHA256 with a key that is derived from the key in the records table and the scope. The first function that
// needs the key creates it ([Load]). To replace it, delete the item contract.MACKeyKey: after [Stale], no function uses the
// old key.
package mac

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter/cache"
)

// ErrForged means that no function of the deployment made the MAC.
var ErrForged = errors.New("MAC: not valid")

// Stale is the age at which a function no longer uses the key that it has read.
const Stale = 15 * time.Minute

// policy reads the key again once a minute. While the table fails, there is one read in ten seconds.
var policy = cache.Policy{Fresh: time.Minute, Stale: Stale, Cooldown: 10 * time.Second, Retry: time.Second, Timeout: 600 * time.Millisecond}

// encoding is strict, so that trailing bits cannot differ.
var encoding = base64.RawURLEncoding.Strict()

// Scope is the deployment in which a MAC is valid. A scope has a namespace, because deployments can share a records table.
// It has a region, because a global table has the same key in several regions.
type Scope struct {
	Namespace string
	Region    string // "" for a key in a file
}

// Ring makes and verifies MACs. It reads the key when a request needs it. It is safe for concurrent use.
type Ring struct {
	scope Scope
	load  cache.Load[[]byte]
	key   *cache.Value[[]byte]
}

// NewRing returns a Ring whose key comes from load, for example [Load] or [Read].
func NewRing(scope Scope, load func(context.Context) ([]byte, error)) *Ring {
	return &Ring{
		scope: scope,
		load: func(ctx context.Context) ([]byte, time.Time, error) {
			key, err := load(ctx)
			return key, time.Time{}, err
		},
		key: cache.New[[]byte](&policy),
	}
}

// Fixed returns a Ring whose key is derived from a secret, for processes that share the secret but no table.
func Fixed(namespace string, secret []byte) *Ring {
	key := derive(secret, "key", "")
	return NewRing(Scope{Namespace: namespace}, func(context.Context) ([]byte, error) { return key, nil })
}

// Load returns the key in a records table. If there is none, it creates it. Concurrent calls create one key, and all
// return it.
func Load(ctx context.Context, api records.ReadWriter, table string) ([]byte, error) {
	return records.LoadSecret(ctx, api, table, contract.MACKeyKey)
}

// Read returns the key in a records table. It creates none: there is no MAC without a key.
func Read(ctx context.Context, api records.Reader, table string) ([]byte, error) {
	key, err := records.NewTable(api, table).Secret(ctx, contract.MACKeyKey)
	if errors.Is(err, records.ErrNoSecret) {
		err = fmt.Errorf("%w; the first function that needs the key creates it", err)
	}
	return key, err
}

// Sign returns the MAC of a text. An error means that there is no key.
func (r *Ring) Sign(ctx context.Context, now time.Time, text []byte) (string, error) {
	sum, err := r.sum(ctx, now, text)
	return encoding.EncodeToString(sum), err
}

// Verify returns nil if Sign returned mac for the text, with the key in use and in the same scope. Otherwise it returns
// ErrForged, also if the table has no key. Other errors mean that the key cannot be read.
func (r *Ring) Verify(ctx context.Context, now time.Time, text []byte, mac string) error {
	want, err := r.sum(ctx, now, text)
	if errors.Is(err, records.ErrNoSecret) {
		return ErrForged
	} else if err != nil {
		return err
	}
	if got, err := encoding.DecodeString(mac); err != nil || !hmac.Equal(got, want) {
		return ErrForged
	}
	return nil
}

func (r *Ring) sum(ctx context.Context, now time.Time, text []byte) ([]byte, error) {
	key, err := r.key.Get(ctx, now, r.load)
	if err != nil {
		return nil, err
	}
	return derive(derive(key, "line key", r.scope.text()), "line", string(text)), nil
}

// text returns a text that differs for each scope. A namespace has no zero byte.
func (s Scope) text() string { return s.Namespace + "\x00" + s.Region }

func derive(key []byte, purpose, context string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("weir " + purpose + "\x00" + context))
	return mac.Sum(nil)
}
