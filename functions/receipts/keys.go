package receipts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
)

// Keys are the keys of receipts.
type Keys struct{ pair records.Pair }

// NewKeys returns a random key.
func NewKeys() Keys { return Keys{records.NewPair()} }

// DeriveKeys returns the key that belongs to a secret, for processes that share the secret but no table.
func DeriveKeys(secret []byte) Keys {
	return Keys{records.Pair{Current: derive(secret, "key", nil)}}
}

// Load returns the keys in a records table. If there are none, it creates them. Concurrent calls create
// one key, and all return it.
func Load(ctx context.Context, api records.ReadWriter, table string) (Keys, error) {
	pair, err := records.LoadPair(ctx, api, table, contract.ReceiptKeysKey)
	return Keys{pair}, err
}

// Read returns the keys in a records table. It creates none: there is no receipt without keys.
func Read(ctx context.Context, api records.Reader, table string) (Keys, error) {
	pair, err := records.ReadPair(ctx, api, table, contract.ReceiptKeysKey)
	if errors.Is(err, records.ErrNoPair) {
		err = fmt.Errorf("%w; the first function that seals a receipt or signs a line creates it", err)
	}
	return Keys{pair}, err
}

// ErrInUse means that a rotation would remove a key that can still open receipts.
var ErrInUse = errors.New("the rotation would invalidate receipts that are not settled yet")

// Rotate replaces the current key at the time now. The error wraps ErrInUse if a receipt can exist that
// only the previous key opens. If force is true, Rotate invalidates such receipts, and their limits keep
// their reserve. Of two concurrent rotations, one fails.
func Rotate(ctx context.Context, api records.ReadWriter, table string, now time.Time, force bool) error {
	err := records.RotatePair(ctx, api, table, contract.ReceiptKeysKey, now, func(p records.Pair) error {
		if free := p.Rotated.Add(Stale + MaxLife + time.Second); p.Previous != nil && now.Before(free) && !force { // the time of the rotation has no fraction
			return fmt.Errorf("last rotation %s: %w (want %s or later)", p.Rotated.Format(time.RFC3339), ErrInUse, free.Format(time.RFC3339))
		}
		return nil
	})
	if errors.Is(err, records.ErrNoPair) {
		return errors.New("records table: no key of receipts to rotate; the first function that seals a receipt or signs a line creates it")
	}
	return err
}
