package identity

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter"
)

// KeyTable is where records of API keys are kept. It is safe for concurrent use. An error
// says that it could not be read, and nothing of a key.
type KeyTable interface {
	// Secrets returns the secrets that hashes were made with: the current one and, during
	// an overlap, the one before. There are none before the first key.
	Secrets(ctx context.Context) ([][]byte, error)
	// Record returns the record of the key with this hash; ok reports whether there is one.
	Record(ctx context.Context, hash string) (r Record, ok bool, err error)
}

// recordTimeout is how long the table may take, for all that it is asked for one key.
const recordTimeout = 900 * time.Millisecond

// maxRecords is how many keys are remembered of those that are known, and of those that
// are not. They are apart, so that guessing displaces no record.
const maxRecords = 10_000

// maxReads is how many keys the table is asked for at once. A function serves one request
// at a time; a server's clients may hang up on reads faster than these end.
const maxReads = 1000

var errReads = fmt.Errorf("%w: more than %d API keys are being looked up", limiter.ErrUnverified, maxReads)

// RemoteRecords are records of API keys in a table, read when they are needed and kept.
// They are KeyRecords.
//
// A record is used for a minute: a key that is revoked is refused after that time. That a key
// is unknown is believed for ten seconds. While the table fails, records that were read stay
// valid for up to an hour; of any other key it cannot be told whether it is good, which is
// limiter.ErrUnverified.
//
// A key that NewAPIKey cannot have made is refused without a read. Any other costs one, or
// two while there are two secrets, even where its address is over a limit: the caller has to
// be known before it is known which limits are theirs. A key is read once at a time, and the
// read does not end with the request that began it. Who has a record from before does not
// wait for a read that is under way.
type RemoteRecords struct {
	table KeyTable

	asking  sync.Mutex // held while the secrets are read
	secrets kept[[][]byte]

	mu             sync.Mutex
	known, unknown *recent[kept[Record]]
	reads          map[digest]*read // those under way
}

// read is one of the table. Its result is set before it is done.
type read struct {
	done   chan struct{}
	result kept[Record]
}

// NewRemoteRecords returns the records in table.
func NewRemoteRecords(table KeyTable) *RemoteRecords {
	return &RemoteRecords{
		table: table,
		known: newRecent[kept[Record]](maxRecords), unknown: newRecent[kept[Record]](maxRecords),
		reads: map[digest]*read{},
	}
}

// Lookup implements KeyRecords.
func (r *RemoteRecords) Lookup(ctx context.Context, now time.Time, key string) (Record, error) {
	if !wellFormed(key) {
		return Record{}, fmt.Errorf("%w: malformed API key", limiter.ErrInvalidCredential)
	}
	found, underway, err := r.look(ctx, now, key)
	if err != nil {
		return Record{}, err
	}
	if underway != nil {
		select {
		case <-underway.done:
			found = underway.result
		case <-ctx.Done():
			if !found.usable(now) {
				return Record{}, fmt.Errorf("%w: %w", limiter.ErrUnverified, ctx.Err())
			}
		}
	}
	record, ok, err := found.answer(now)
	switch {
	case err != nil:
		return Record{}, fmt.Errorf("%w: %w", limiter.ErrUnverified, err)
	case !ok:
		return Record{}, fmt.Errorf("%w: unknown API key", limiter.ErrInvalidCredential)
	}
	return record, nil
}

// look returns what is known of a key, and the read to wait for, nil if there is none. It
// begins one if it is time. The error says that there is no room for one more.
func (r *RemoteRecords) look(ctx context.Context, now time.Time, key string) (kept[Record], *read, error) {
	id := digest(sha256.Sum256([]byte(key)))
	r.mu.Lock()
	defer r.mu.Unlock()
	found, ok := r.known.get(id)
	if !ok {
		found, _ = r.unknown.get(id)
	}
	underway := r.reads[id]
	switch {
	case !found.due(now), underway != nil && found.usable(now):
		return found, nil, nil
	case underway == nil && len(r.reads) >= maxReads:
		if found.usable(now) {
			return found, nil, nil
		}
		return found, nil, errReads
	case underway == nil:
		underway = &read{done: make(chan struct{}), result: found}
		r.reads[id] = underway
		go r.finish(context.WithoutCancel(ctx), now, id, key, underway)
	}
	return found, underway, nil
}

// finish makes a read and remembers its result.
func (r *RemoteRecords) finish(ctx context.Context, now time.Time, id digest, key string, underway *read) {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	record, known, err := r.ask(ctx, now, key)
	r.mu.Lock()
	defer r.mu.Unlock()
	underway.result = underway.result.asked(now, record, known, err)
	r.known.remove(id)
	if underway.result.known {
		r.known.put(id, underway.result)
	} else {
		r.unknown.put(id, underway.result)
	}
	delete(r.reads, id)
	close(underway.done)
}

// ask reads the record of a key from the table, under each secret.
func (r *RemoteRecords) ask(ctx context.Context, now time.Time, key string) (record Record, ok bool, err error) {
	secrets, err := r.hashedWith(ctx, now)
	if err != nil {
		return Record{}, false, err
	}
	for _, secret := range secrets {
		if record, ok, err = r.table.Record(ctx, HashAPIKey(secret, key)); ok || err != nil {
			return record, ok, err
		}
	}
	return Record{}, false, nil
}

// hashedWith returns the secrets, as they are known at now.
func (r *RemoteRecords) hashedWith(ctx context.Context, now time.Time) ([][]byte, error) {
	r.asking.Lock()
	defer r.asking.Unlock()
	if r.secrets.due(now) {
		secrets, err := r.table.Secrets(ctx)
		r.secrets = r.secrets.asked(now, secrets, len(secrets) > 0, err)
	}
	secrets, _, err := r.secrets.answer(now)
	return secrets, err
}
