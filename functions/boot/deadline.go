package boot

import "time"

// The default deadlines of a decision on an open connection. Package resilient extends them where
// a connection has to be opened. STORE_TIMEOUT replaces them. In this time a store makes:
//
//	redis      one script call; one more if the server does not have the script yet
//	dynamodb   one conditional write, and one more for each wrong guess at the state (package
//	           dynamostore); the SDK retries nothing
const (
	redisTimeout    = 50 * time.Millisecond
	dynamoDBTimeout = 100 * time.Millisecond
)

// timeout returns how long a decision may wait for the store on an open connection.
func (c Config) timeout() time.Duration {
	switch {
	case c.Timeout > 0:
		return c.Timeout
	case c.Store == "redis":
		return redisTimeout
	}
	return dynamoDBTimeout
}
