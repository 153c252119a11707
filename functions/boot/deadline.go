package boot

import "time"

// These are the default deadlines of a decision on an open connection. Package resilient extends them
// if a connection must be opened. STORE_TIMEOUT replaces them. Within its deadline a store makes
// these calls:
//
//	redis      one script call; one more if the server does not have the script yet
//	dynamodb   one conditional write, and one more for each wrong guess at the state (package
//	           dynamostore); the SDK does not retry
const (
	redisTimeout    = 50 * time.Millisecond
	dynamoDBTimeout = 100 * time.Millisecond
)

// timeout bounds how long a decision waits for the store on an open connection.
func (c Config) timeout() time.Duration {
	switch {
	case c.Timeout > 0:
		return c.Timeout
	case c.Store == "redis":
		return redisTimeout
	}
	return dynamoDBTimeout
}
