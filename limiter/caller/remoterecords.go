package caller

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"
)

// KeyTable is where records of API keys are kept. It is safe for concurrent use. An error
// says that it could not be read, and nothing of a key; one that wraps ErrRecord is of the
// record that was asked for alone.
type KeyTable interface {
	// Secrets returns the secrets that hashes were made with: the current one and, during
	// an overlap, the one before. There are none before the first key.
	Secrets(ctx context.Context) ([][]byte, error)
	// Record returns the record of the key with this hash; ok reports whether there is one.
	Record(ctx context.Context, hash string) (r Record, ok bool, err error)
}

// ErrRecord is a record that is there and cannot be understood.
var ErrRecord = errors.New("malformed record")

// recordTimeout is how long the table may take, for all that it is asked for one key, and
// secretsTimeout for the secrets, which leaves time to read the record by those from before.
const (
	recordTimeout  = 900 * time.Millisecond
	secretsTimeout = 600 * time.Millisecond
)

var errLost = errors.New("the secrets of the API keys' hashes are gone: restore them from a backup")

// maxRecords is how many keys are remembered of those that are known, and of those that
// are not. They are apart, so that guessing displaces no record.
const maxRecords = 10_000

// maxReads is how many keys the table is asked for at once. A function serves one request
// at a time; a server's clients may hang up on reads faster than these end.
const maxReads = 1000

var errReads = fmt.Errorf("%w: more than %d API keys are being looked up", ErrUnverified, maxReads)

// RemoteRecords are records of API keys in a table, read when they are needed and kept.
// They are KeyRecords.
//
// A record is used for a minute: a key that is revoked is refused after that time. That a key
// is unknown is believed for ten seconds. While the table fails, records that were read stay
// valid for up to an hour; of any other key it cannot be told whether it is good, which is
// ErrUnverified. The table is then asked by one key a second, whatever keys come. The
// same holds for the secrets that hashes are made with: once they were there, none is a failure.
//
// A key that NewAPIKey cannot have made is refused without a read. Any other costs one, or
// two while there are two secrets, even where its address is over a limit: the caller has to
// be known before it is known which limits are theirs. A key is read once at a time, and the
// read does not end with the request that began it. Who has a record from before does not
// wait for a read that is under way.
type RemoteRecords struct {
	table KeyTable

	mu             sync.Mutex
	secrets        kept[[][]byte]
	asking         chan struct{} // closed when the secrets have been read; nil while nobody reads them
	failed         error         // of the table, at the last read of a record
	failedAt       time.Time
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
		return Record{}, fmt.Errorf("%w: malformed API key", ErrInvalidCredential)
	}
	found, underway, err := r.look(ctx, now, key)
	if err != nil {
		return Record{}, err
	}
	if underway != nil {
		switch gone := wait(ctx, underway.done); {
		case gone == nil:
			found = underway.result
		case !found.usable(now):
			return Record{}, fmt.Errorf("%w: %w", ErrUnverified, gone)
		}
	}
	record, ok, err := found.answer(now)
	switch {
	case err != nil:
		return Record{}, fmt.Errorf("%w: %w", ErrUnverified, err)
	case !ok:
		return Record{}, fmt.Errorf("%w: unknown API key", ErrInvalidCredential)
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
	case underway == nil && r.failed != nil && now.Sub(r.failedAt).Abs() < recordRetry:
		found.failed = r.failed // whatever key, it is the same table
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
	if r.failed = nil; err != nil && !errors.Is(err, ErrRecord) {
		r.failed, r.failedAt = err, now
	}
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

// Warm reads the secrets, if they are not known at now: before the first key comes, to whom a
// connection that is to be opened would be slow. The error says that they could not be read.
func (r *RemoteRecords) Warm(ctx context.Context, now time.Time) error {
	_, err := r.hashedWith(ctx, now)
	return err
}

// hashedWith returns the secrets, as they are known at now. Who finds them too old first waits
// until they are read, and all do while there are none that may be used.
func (r *RemoteRecords) hashedWith(ctx context.Context, now time.Time) ([][]byte, error) {
	r.mu.Lock()
	known, asking := r.secrets, r.asking
	if asking == nil && known.due(now) {
		asking = make(chan struct{})
		r.asking = asking
		go r.askSecrets(context.WithoutCancel(ctx), now)
	} else if known.usable(now) {
		asking = nil
	}
	r.mu.Unlock()
	if asking != nil {
		if err := wait(ctx, asking); err != nil {
			return nil, err
		}
		r.mu.Lock()
		known = r.secrets
		r.mu.Unlock()
	}
	secrets, _, err := known.answer(now)
	return secrets, err
}

// askSecrets reads the secrets and remembers them.
func (r *RemoteRecords) askSecrets(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, secretsTimeout)
	defer cancel()
	secrets, err := r.table.Secrets(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && len(secrets) == 0 && len(r.secrets.value) > 0 {
		err = errLost
	}
	r.secrets = r.secrets.asked(now, secrets, len(secrets) > 0, err)
	close(r.asking)
	r.asking = nil
}
