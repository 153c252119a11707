package limiter

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// VoucherID identifies a Voucher.
type VoucherID [16]byte

// NewVoucherID returns a random ID.
func NewVoucherID() (id VoucherID) {
	_, _ = rand.Read(id[:]) // it never fails
	return id
}

// String returns the ID in 32 hexadecimal digits.
func (id VoucherID) String() string { return hex.EncodeToString(id[:]) }

// Once makes a store apply a settlement at most once. With the zero value, a store does not check this,
// which costs nothing.
//
// A store keeps the IDs of the settlements that it applied, at least until they expire. It groups them
// by OncePeriod: it keeps at most MaxOnce IDs of a subject for one period, and forgets whole periods.
// It never applies a settlement of a period that it has forgotten.
type Once struct {
	ID      VoucherID
	Expires algo.Instant
}

const (
	// OncePeriod is the length of the periods by which stores group settled IDs.
	OncePeriod = time.Minute
	// MaxOnce is the number of settled IDs that a store keeps of a subject for one period.
	MaxOnce = 128
)

// Needed reports whether the settlement has an ID.
func (o Once) Needed() bool { return o != Once{} }

// Period returns the number of the period in which the ID expires.
func (o Once) Period() int64 { return int64(o.Expires) / int64(OncePeriod) }

// Short returns the part of the ID that stores keep. Two IDs of a subject and period have the same part
// with a probability below 1 in 10^17. Then the second settlement changes nothing.
func (o Once) Short() [8]byte { return [8]byte(o.ID[:8]) }

// Forgettable returns the newest period whose IDs a store may forget at now. All its IDs have expired for
// every correct clock.
func Forgettable(now algo.Instant) int64 {
	return int64(now.Add(-algo.MaxSkew))/int64(OncePeriod) - 1
}

// Forgotten returns the error of a settlement whose period a store has forgotten.
func (o Once) Forgotten() error {
	return fmt.Errorf("%w: the store has forgotten the settlements of its period", ErrVoucherExpired)
}

// Crowded returns the error of a settlement whose period has no room for another ID.
func (o Once) Crowded() error {
	return fmt.Errorf("%w: too many settlements of one subject (at most %d with an expiry in the same %s)", ErrVoucherExpired, MaxOnce, OncePeriod)
}
