package caller

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/weir-limits/weir/limiter/fresh"
)

// KeyTable stores records of API keys. It is safe for concurrent use. Its errors contain nothing of
// a key. An error that wraps ErrRecord concerns one record; any other means that the table fails.
type KeyTable interface {
	// Secrets returns the secrets of the hashes: the current one and, during a rotation, the one
	// before. There are none before the first key.
	Secrets(ctx context.Context) ([][]byte, error)
	// Record returns the record of the key with this hash; ok reports whether there is one.
	Record(ctx context.Context, hash string) (r Record, ok bool, err error)
}

// ErrRecord is a record that exists and cannot be decoded.
var ErrRecord = errors.New("malformed record")

// How long an answer of the table is used, and how long the table rests after a failure.
const (
	recordFresh    = time.Minute
	absenceFresh   = 10 * time.Second // shorter: a new key may not be in every replica yet
	recordStale    = time.Hour        // while the table fails
	recordCooldown = 10 * time.Second // while there is an answer from before
	recordRetry    = time.Second
)

// recordTimeout bounds the reads for one key, and secretsTimeout the read of the secrets: it
// leaves time to read a record.
const (
	recordTimeout  = 900 * time.Millisecond
	secretsTimeout = 600 * time.Millisecond
)

var secretsPolicy = recordPolicy(secretsTimeout)

func recordPolicy(timeout time.Duration) fresh.Policy {
	return fresh.Policy{Fresh: recordFresh, Absent: absenceFresh, Stale: recordStale, Cooldown: recordCooldown, Retry: recordRetry, Timeout: timeout}
}

var errLost = errors.New("the secrets of the API keys' hashes are gone: restore them from a backup")

// maxRecords is how many known keys are kept, and how many unknown ones. They are kept apart, so that
// guesses evict no record.
const maxRecords = 10_000

// maxReads bounds the reads under way. A function serves one request at a time, but clients of a
// server may hang up faster than their reads end.
const maxReads = 1000

var errReads = fmt.Errorf("more than %d API keys are being looked up", maxReads)

// RemoteRecords are records of API keys in a table, which are read when a request needs them and
// kept. They implement KeyRecords.
//
// A record is used for a minute, so a revoked key is rejected after at most that time. An unknown key
// is read again after ten seconds. While the table fails, records from before stay valid for up to an
// hour; any other key cannot be checked, and the error wraps ErrUnverified. The table then gets one
// read a second for all keys together. The secrets of the hashes follow the same rules; if they
// disappear, that is a failure.
//
// A key that NewAPIKey cannot have made is rejected without a read. Any other key costs one read, or
// two during a rotation of secrets, even if its address is over a limit: the limits depend on the
// caller. There is one read of a key at a time, and it does not end with the request that began it. A
// request with a record from before does not wait for a read under way.
type RemoteRecords struct {
	table   KeyTable
	policy  fresh.Policy // of a record
	secrets *fresh.Value[[][]byte]
	had     bool // there were secrets; used by the reads of secrets, one at a time

	mu             sync.Mutex
	known, unknown *simplelru.LRU[digest, *fresh.Value[Record]]
	reads          int       // under way
	failed         error     // of the last read of a record, unless it is of that record alone
	failedAt       time.Time // when that read began
}

// digest stands for an API key in memory.
type digest [sha256.Size]byte

// NewRemoteRecords returns the records in table.
func NewRemoteRecords(table KeyTable) *RemoteRecords {
	r := &RemoteRecords{
		table:   table,
		policy:  recordPolicy(recordTimeout),
		secrets: fresh.New[[][]byte](&secretsPolicy),
	}
	r.policy.Admit = r.admit
	r.known, _ = simplelru.NewLRU[digest, *fresh.Value[Record]](maxRecords, nil) // it fails for a size below 1 only
	r.unknown, _ = simplelru.NewLRU[digest, *fresh.Value[Record]](maxRecords, nil)
	return r
}

// Lookup implements KeyRecords.
func (r *RemoteRecords) Lookup(ctx context.Context, now time.Time, key string) (Record, error) {
	if !wellFormed(key) {
		return Record{}, fmt.Errorf("%w: malformed API key", ErrInvalidCredential)
	}
	id := digest(sha256.Sum256([]byte(key)))
	value := r.value(id)
	var record Record
	var err error
	if !value.Due(now) {
		record, err = value.Peek(now)
	} else {
		record, err = value.Get(ctx, now, func(ctx context.Context) (Record, time.Time, error) {
			record, err := r.read(ctx, now, key)
			r.finish(now, id, value, err)
			return record, time.Time{}, err
		})
	}
	switch {
	case errors.Is(err, fresh.ErrAbsent):
		return Record{}, fmt.Errorf("%w: unknown API key", ErrInvalidCredential)
	case err != nil:
		return Record{}, fmt.Errorf("%w: %w", ErrUnverified, err)
	}
	return record, nil
}

// value returns the cached value of a key.
func (r *RemoteRecords) value(id digest) *fresh.Value[Record] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if value, ok := r.known.Get(id); ok {
		return value
	}
	value, ok := r.unknown.Get(id)
	if !ok {
		value = fresh.New[Record](&r.policy)
		r.unknown.Add(id, value)
	}
	return value
}

// admit counts a read that begins at now. It returns an error if the table fails for all keys, or if
// there are too many reads.
func (r *RemoteRecords) admit(now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.failed != nil && now.Sub(r.failedAt).Abs() < recordRetry:
		return r.failed
	case r.reads >= maxReads:
		return errReads
	}
	r.reads++
	return nil
}

// finish records the end of a read that began at now.
func (r *RemoteRecords) finish(now time.Time, id digest, value *fresh.Value[Record], err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads--
	r.failed = nil
	switch {
	case err == nil:
		r.unknown.Remove(id)
		r.known.Add(id, value)
	case errors.Is(err, fresh.ErrAbsent):
		r.known.Remove(id)
		r.unknown.Add(id, value)
	case !errors.Is(err, ErrRecord):
		r.failed, r.failedAt = err, now
	}
}

// read reads the record of a key from the table, under each secret.
func (r *RemoteRecords) read(ctx context.Context, now time.Time, key string) (Record, error) {
	secrets, err := r.hashedWith(ctx, now)
	if err != nil {
		return Record{}, err
	}
	for _, secret := range secrets {
		if record, ok, err := r.table.Record(ctx, HashAPIKey(secret, key)); ok || err != nil {
			return record, err
		}
	}
	return Record{}, fresh.ErrAbsent
}

// Warm reads the secrets if they are not known at now, so that the first key does not wait for a
// new connection. The error is that of the table.
func (r *RemoteRecords) Warm(ctx context.Context, now time.Time) error {
	_, err := r.hashedWith(ctx, now)
	return err
}

// hashedWith returns the secrets as they are known at now; none before the first key.
func (r *RemoteRecords) hashedWith(ctx context.Context, now time.Time) ([][]byte, error) {
	secrets, err := r.secrets.Get(ctx, now, r.readSecrets)
	if errors.Is(err, fresh.ErrAbsent) {
		return nil, nil
	}
	return secrets, err
}

func (r *RemoteRecords) readSecrets(ctx context.Context) (secrets [][]byte, _ time.Time, err error) {
	secrets, err = r.table.Secrets(ctx)
	switch {
	case err != nil:
	case len(secrets) > 0:
		r.had = true
	case r.had:
		err = errLost
	default:
		err = fresh.ErrAbsent
	}
	return secrets, time.Time{}, err
}
