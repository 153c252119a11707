package caller

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/weir-limits/weir/limiter/cache"
)

// KeyTable stores records of API keys. It is safe for concurrent use. Its errors contain no part of a
// key. An error that wraps ErrRecord concerns one record. Any other error means that the table fails.
type KeyTable interface {
	// Secret returns the secret that hashes the keys. It returns nil before the first key exists.
	Secret(ctx context.Context) ([]byte, error)
	// Record returns the record of the key with this hash. ok is false if there is no record.
	Record(ctx context.Context, hash string) (r Record, ok bool, err error)
}

// ErrRecord reports that a record exists but cannot be decoded.
var ErrRecord = errors.New("malformed record")

// These constants set how long an answer of the table is used, and the minimum time between a failed
// read and the next read.
const (
	recordFresh    = time.Minute
	absenceFresh   = 10 * time.Second // shorter than recordFresh, because a replica of the table may not have a new key yet
	recordStale    = time.Hour        // applies while the table fails
	recordCooldown = 10 * time.Second // applies while there is an earlier answer
	recordRetry    = time.Second
)

// recordTimeout bounds the reads for one key. secretTimeout bounds the read of the secret; it is
// shorter, so that time remains to read a record.
const (
	recordTimeout = 900 * time.Millisecond
	secretTimeout = 600 * time.Millisecond
)

var secretPolicy = recordPolicy(secretTimeout)

func recordPolicy(timeout time.Duration) cache.Policy {
	return cache.Policy{Fresh: recordFresh, Absent: absenceFresh, Stale: recordStale, Cooldown: recordCooldown, Retry: recordRetry,
		Timeout: timeout}
}

var errLost = errors.New("API keys: the secret of their hashes is missing in the table; restore the secret from a backup")

// maxRecords bounds the cached known keys and, separately, the cached unknown keys. The two caches
// are separate so that guessed keys evict no record.
const maxRecords = 10_000

// maxReads bounds the running reads. In Lambda, an environment serves one request at a time. In a server,
// many clients can send a key and disconnect before their reads end.
const maxReads = 1000

var errReads = fmt.Errorf("API keys: too many concurrent lookups (want at most %d)", maxReads)

// RemoteRecords are records of API keys in a table. They are read when a request needs them, and
// cached. RemoteRecords implements KeyRecords.
//
// A cached record is used for a minute, so a revoked key is rejected after at most one minute. An
// unknown key is read again after ten seconds. While the table fails, cached records stay valid for
// up to an hour. A key without a cached record cannot be verified, and the error wraps ErrUnverified.
// While the table fails, there is one read a second for all keys together. The secret of the hashes
// follows the same rules. A missing secret counts as a failure.
//
// A key that does not have the format of NewAPIKey is rejected without a read, unless AcceptForeign is true and
// IsForeignKey returns true. Any other key costs
// one read. Even a request whose address is over a limit costs this
// read, because limits are checked only after the caller is identified. There is one read of a key at a
// time. The read continues when the request that started it ends. A request with a cached record does
// not wait for a running read.
type RemoteRecords struct {
	// AcceptForeign looks up foreign keys too. Set it before the first Lookup.
	AcceptForeign bool

	table  KeyTable
	policy cache.Policy // policy of each cached record
	secret *cache.Value[[]byte]
	had    bool // an earlier read returned a secret; needs no lock, because reads of the secret run one at a time

	mu             sync.Mutex
	known, unknown *simplelru.LRU[digest, *cache.Value[Record]]
	reads          int       // number of running reads
	failed         error     // error of the last read of a record, unless it concerns that record alone
	failedAt       time.Time // instant at which the read that set failed began
}

// digest identifies an API key in memory.
type digest [sha256.Size]byte

// NewRemoteRecords returns the records in a table.
func NewRemoteRecords(table KeyTable) *RemoteRecords {
	r := &RemoteRecords{
		table:  table,
		policy: recordPolicy(recordTimeout),
		secret: cache.New[[]byte](&secretPolicy),
	}
	r.policy.Admit = r.admit
	r.known, _ = simplelru.NewLRU[digest, *cache.Value[Record]](maxRecords, nil) // NewLRU fails only for a size below 1
	r.unknown, _ = simplelru.NewLRU[digest, *cache.Value[Record]](maxRecords, nil)
	return r
}

// Lookup implements KeyRecords.
func (r *RemoteRecords) Lookup(ctx context.Context, now time.Time, key string) (Record, error) {
	if !WellFormed(key) && (!r.AcceptForeign || !IsForeignKey(key)) {
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
	case errors.Is(err, cache.ErrAbsent):
		return Record{}, fmt.Errorf("%w: unknown API key", ErrInvalidCredential)
	case err != nil:
		return Record{}, fmt.Errorf("%w: %w", ErrUnverified, err)
	}
	return record, nil
}

func (r *RemoteRecords) value(id digest) *cache.Value[Record] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if value, ok := r.known.Get(id); ok {
		return value
	}
	value, ok := r.unknown.Get(id)
	if !ok {
		value = cache.New[Record](&r.policy)
		r.unknown.Add(id, value)
	}
	return value
}

// admit counts a read that begins at the time now. It returns an error if the table fails for all keys, or if
// too many reads are running.
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

// finish records the result of a read that began at the time now.
func (r *RemoteRecords) finish(now time.Time, id digest, value *cache.Value[Record], err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads--
	r.failed = nil
	switch {
	case err == nil:
		r.unknown.Remove(id)
		r.known.Add(id, value)
	case errors.Is(err, cache.ErrAbsent):
		r.known.Remove(id)
		r.unknown.Add(id, value)
	case !errors.Is(err, ErrRecord):
		r.failed, r.failedAt = err, now
	}
}

// read reads the record of a key from the table. Before the first key exists, it is absent.
func (r *RemoteRecords) read(ctx context.Context, now time.Time, key string) (Record, error) {
	secret, err := r.secret.Get(ctx, now, r.readSecret)
	if err != nil {
		return Record{}, err
	}
	hashed := key
	if isForeign(key) {
		hashed = DigestKey(key)
	}
	record, ok, err := r.table.Record(ctx, HashAPIKey(secret, hashed))
	if err == nil && !ok {
		err = cache.ErrAbsent
	}
	return record, err
}

// Warm reads the secret if it is not cached at the time now. The first key then does not wait for a new
// connection. Warm returns the error of the table.
func (r *RemoteRecords) Warm(ctx context.Context, now time.Time) error {
	_, err := r.secret.Get(ctx, now, r.readSecret)
	if errors.Is(err, cache.ErrAbsent) {
		return nil
	}
	return err
}

func (r *RemoteRecords) readSecret(ctx context.Context) (secret []byte, _ time.Time, err error) {
	secret, err = r.table.Secret(ctx)
	switch {
	case err != nil:
	case len(secret) > 0:
		r.had = true
	case r.had:
		err = errLost
	default:
		err = cache.ErrAbsent
	}
	return secret, time.Time{}, err
}
