package receipts

import (
	"context"
	"crypto/hmac"
	"errors"
	"time"

	"github.com/weir-limits/weir/functions/records"
)

// Sign returns the MAC of a log line. An error means that there are no keys.
func (r *Ring) Sign(ctx context.Context, now time.Time, line []byte) (string, error) {
	keys, err := r.keys.Get(ctx, now, r.load)
	if err != nil {
		return "", err
	}
	return encoding.EncodeToString(lineMAC(keys.sealing(now), r.scope, line)), nil
}

// Verify returns nil if Sign returned mac for the line, with a key in use and in the same scope. Otherwise it returns
// ErrForged, also if the table has no keys. Other errors mean that the keys cannot be read.
func (r *Ring) Verify(ctx context.Context, now time.Time, line []byte, mac string) error {
	keys, err := r.keys.Get(ctx, now, r.load)
	if errors.Is(err, records.ErrNoPair) {
		return ErrForged
	} else if err != nil {
		return err
	}
	got, err := encoding.DecodeString(mac)
	if err != nil {
		return ErrForged
	}
	for _, key := range [][]byte{keys.pair.Current, keys.pair.Previous} {
		if key != nil && hmac.Equal(got, lineMAC(key, r.scope, line)) {
			return nil
		}
	}
	return ErrForged
}

func lineMAC(key []byte, scope Scope, line []byte) []byte {
	return derive(derive(key, "line key", []byte(scope.text())), "line", line)
}
