package receipts

import (
	"context"
	"time"

	"github.com/weir-limits/weir/limiter/cache"
)

// MaxLife is the longest time for which a receipt is valid. [Rotate] keeps a key at least as long.
const MaxLife = 30 * time.Minute

// Stale is the age at which a function no longer uses the keys that it has read.
const Stale = 15 * time.Minute

// policy reads the keys again once a minute. While the table fails, there is one read in ten seconds.
var policy = cache.Policy{Fresh: time.Minute, Stale: Stale, Cooldown: 10 * time.Second, Retry: time.Second, Timeout: 600 * time.Millisecond}

// Ring seals and opens receipts. It reads the keys when a request needs them, and caches them for a
// minute. It is safe for concurrent use.
type Ring struct {
	scope Scope
	load  cache.Load[Keys]
	keys  *cache.Value[Keys]
}

// Scope is the set of counters in which a receipt can be settled. A scope has a namespace, because deployments can
// share a records table. It has a region, because a global table has the same keys in several regions.
type Scope struct {
	Namespace string
	Region    string // "" for keys in a file
}

// text returns a text that differs for each scope. A namespace has no zero byte.
func (s Scope) text() string { return s.Namespace + "\x00" + s.Region }

// NewRing returns a Ring whose keys come from load, for example [Load] or [Read]. It opens only receipts of
// the same scope.
func NewRing(scope Scope, load func(context.Context) (Keys, error)) *Ring {
	return &Ring{
		scope: scope,
		load: func(ctx context.Context) (Keys, time.Time, error) {
			keys, err := load(ctx)
			return keys, time.Time{}, err
		},
		keys: cache.New[Keys](&policy),
	}
}

// Fixed returns a Ring that always has the same keys, without a region.
func Fixed(namespace string, keys Keys) *Ring {
	return NewRing(Scope{Namespace: namespace}, func(context.Context) (Keys, error) { return keys, nil })
}

// Seal returns the sealed receipt: at most contract.MaxReceipt bytes of base64url. The error wraps
// ErrTooLong if it would be longer. Other errors mean that there are no keys.
func (r *Ring) Seal(ctx context.Context, now time.Time, receipt []byte) (string, error) {
	keys, err := r.keys.Get(ctx, now, r.load)
	if err != nil {
		return "", err
	}
	return keys.seal(now, r.scope, receipt)
}

// Open returns a receipt that Seal has sealed. The error wraps ErrForged if text is anything else. Other
// errors mean that there are no keys; then text can still be a receipt.
func (r *Ring) Open(ctx context.Context, now time.Time, text string) ([]byte, error) {
	keys, err := r.keys.Get(ctx, now, r.load)
	if err != nil {
		return nil, err
	}
	return keys.open(r.scope, text)
}
