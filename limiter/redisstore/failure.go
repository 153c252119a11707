package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/weir-limits/weir/limiter"
)

// outages are the prefixes of replies that concern every key. For some time, or until its configuration
// changes, the server does not serve this client.
var outages = []string{
	"ASK ", "BUSY ", "CLUSTERDOWN ", "LOADING ", "MASTERDOWN ", "MISCONF ", "MOVED ", "NOAUTH ", "NOPERM ", "NOREPLICAS ", "READONLY ",
	"UNKILLABLE ", "WRONGPASS ", "ERR max number of clients ",
	"ERR The user executing the script can't run this command", // the same as NOPERM, for a command inside a script
}

// failed translates an error of a call to an error of a store. If the server did not serve the call, another server of
// a cluster may have taken its place, so the client reads again which servers have which slots. Otherwise it would
// call a dead server for a minute after the failover. It reads at most once in 200 ms. After the end of an old
// connection the server may still be there: only the next call, which opens a new connection, shows whether it is.
func (s *Store) failed(err error) error {
	err = failure(err)
	if s.cluster != nil && !limiter.Answered(err) && !ended(err) {
		s.cluster.ReloadState(context.Background()) // does not wait
	}
	return err
}

// ended reports whether the connection of a call has ended.
func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// failure translates an error of the client to an error of a store. A reply that concerns one key is an
// answer (see limiter.Answered). A reply that concerns every key is a failure of the store. Any other
// error is a failure too.
func failure(err error) error {
	reply, ok := errors.AsType[redis.Error](err)
	switch {
	case !ok || slices.ContainsFunc(outages, func(prefix string) bool { return strings.HasPrefix(reply.Error(), prefix) }):
		return fmt.Errorf("%w: %w", limiter.ErrUnavailable, err)
	case strings.HasPrefix(reply.Error(), "OOM "): // the server answers, but refuses every write, also to existing keys
		return fmt.Errorf("%w: %w", limiter.ErrFull, err)
	case strings.HasPrefix(reply.Error(), "WRONGTYPE "):
		return fmt.Errorf("%w: %w", limiter.ErrFormat, err)
	}
	return fmt.Errorf("%w: %w: %w", limiter.ErrUnavailable, limiter.ErrRejected, err)
}
