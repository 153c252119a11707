package receipts

import (
	"time"

	"github.com/weir-limits/weir/functions/records"
)

// Rotated returns keys after a rotation at the time now.
func Rotated(k Keys, now time.Time) Keys {
	return Keys{records.Pair{Current: records.NewPair().Current, Previous: k.pair.Current, Rotated: now}}
}

// Forget returns keys without the previous key.
func Forget(k Keys) Keys { return Keys{records.Pair{Current: k.pair.Current}} }
