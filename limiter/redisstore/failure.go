package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/weir-limits/weir/limiter"
)

// outages are how replies begin that concern every key: the server does not serve this client,
// for now or until somebody changes its configuration.
var outages = []string{
	"ASK ", "BUSY ", "CLUSTERDOWN ", "LOADING ", "MASTERDOWN ", "MISCONF ", "MOVED ", "NOAUTH ", "NOPERM ", "NOREPLICAS ", "READONLY ", "TRYAGAIN ",
	"UNKILLABLE ", "WRONGPASS ", "ERR max number of clients ",
	"ERR The user executing the script can't run this command", // as NOPERM, of a command inside a script
}

// failure returns an error of the client as one of a store. A reply of the server that concerns
// one key is an answer (see limiter.Answered); a reply that concerns every key, and every other
// error, is none.
func failure(err error) error {
	reply, ok := errors.AsType[redis.Error](err)
	switch {
	case !ok || slices.ContainsFunc(outages, func(prefix string) bool { return strings.HasPrefix(reply.Error(), prefix) }):
		return fmt.Errorf("%w: %w", limiter.ErrUnavailable, err)
	case strings.HasPrefix(reply.Error(), "OOM "): // keys that are there may still be charged
		return fmt.Errorf("%w: %w", limiter.ErrFull, err)
	case strings.HasPrefix(reply.Error(), "WRONGTYPE "):
		return fmt.Errorf("%w: %w", limiter.ErrFormat, err)
	}
	return fmt.Errorf("%w: %w: %w", limiter.ErrUnavailable, limiter.ErrRejected, err)
}
