package boot

import (
	"time"

	"github.com/weir-limits/weir/limiter"
)

// How long a store may take, and what is tried in that time. A decision is one call of the
// store for each subject, all at once, under one deadline:
//
//	redis      50 ms    one script; one more where the server does not know it yet
//	dynamodb   100 ms   one conditional write, and one more for each guess at the state that
//	                    was wrong (package dynamostore); the SDK retries nothing
//	reconnect  250 ms   a decision that has to open a connection: after 5 s without a call, a
//	                    second or more after one that failed, or because its connection,
//	                    which had been used before, turns out to be dead: that call is
//	                    made once more
//	first      900 ms   the first decision of an environment
//
// STORE_TIMEOUT replaces the first two, and those after them where it is longer. A dial goes on
// for up to 900 ms when the decision that began it waits no more: the next one finds the connection.
const (
	redisTimeout     = 50 * time.Millisecond
	dynamoDBTimeout  = 100 * time.Millisecond
	reconnectTimeout = 250 * time.Millisecond
	firstTimeout     = limiter.DefaultTimeout

	// MaxIdle is after how long an idle connection is dropped. It is short because Lambda
	// freezes a process between two events: who hangs up meanwhile is noticed by the next
	// request only, which is then not limited. Neither server drops an idle connection that
	// soon. It is checked where the connection would be used next, by the wall clock, and so
	// also after a freeze.
	MaxIdle = 5 * time.Second
)

// timeout returns the time that the store has for a decision.
func (c Config) timeout() time.Duration {
	switch {
	case c.Timeout > 0:
		return c.Timeout
	case c.Store == "redis":
		return redisTimeout
	}
	return dynamoDBTimeout
}
