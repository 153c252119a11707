package resilient

import (
	"fmt"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// These are the deadlines of a decision on an open connection, in packages redisstore and dynamostore. In its
// deadline, a store makes these calls:
//
//	Redis      one script call; one more if the server does not have the script yet
//	DynamoDB   one conditional write, and one more for each wrong guess at the state (package
//	           dynamostore); the SDK does not retry
const (
	RedisTimeout    = 50 * time.Millisecond
	DynamoDBTimeout = 100 * time.Millisecond
)

// The bounds of every resilient store.
const (
	// Failures is the number of failures in a row that open the breaker.
	Failures = 5
	// Pause is the time from the opening of the breaker until a call probes the store.
	Pause = 500 * time.Millisecond
	// ReconnectTimeout bounds a decision that may have to open a connection, if it is longer than limiter.Options.Timeout.
	ReconnectTimeout = 250 * time.Millisecond
	// FirstTimeout replaces ReconnectTimeout for the first decision, and for decisions that begin before the first decision
	// returns.
	FirstTimeout = 900 * time.Millisecond
)

// Options are the options of New. The zero value is ready for use.
type Options struct {
	// Timeout bounds a decision on an open connection, unless limiter.Options.Timeout is set. It MUST be below
	// limiter.MinWindow. 0 means limiter.DefaultTimeout.
	Timeout time.Duration
	// Background lets a goroutine look at the store after a pause, so that no request waits for a store that hangs. Set
	// it in servers. In AWS Lambda, a process runs only during a request.
	Background bool
}

// New wraps a store such as that of redisstore.NewBare. The package comment describes what the wrapped store does.
// Inspect and Reset, which operators call, bypass the breaker. The error names the option that is out of range. A
// store that is resilient already, and a Local store, which has no connections, are an error.
func New(store limiter.Store, o Options) (*Store, error) {
	if o.Timeout < 0 || o.Timeout >= limiter.MinWindow {
		return nil, fmt.Errorf("resilient: %w", &algo.FieldError{Field: "Options.Timeout", Got: o.Timeout,
			Want: fmt.Sprintf("at least 0 and less than %s; 0 means %s", limiter.MinWindow, limiter.DefaultTimeout)})
	}
	switch store.(type) {
	case nil, limiter.Local, *Store:
		return nil, fmt.Errorf("resilient: store: got %T, want a store outside this process that is not resilient yet", store)
	}
	return newStore(store, o), nil
}
