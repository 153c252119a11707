package redisstore

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/weir-limits/weir/limiter"
)

var (
	//go:embed value.lua
	valueSource string
	//go:embed take.lua
	takeSource string
	//go:embed replace.lua
	replaceSource string
	//go:embed settle.lua
	settleSource string

	takeScript    = newScript(valueSource + takeSource)
	replaceScript = newScript(replaceSource)
	settleScript  = newScript(valueSource + settleSource)
)

// script is a script as an argument of a command: its source, and its hash.
type script struct{ source, hash any }

func newScript(source string) *script { return &script{source, redis.NewScript(source).Hash()} }

// call is one call of a script. No client sends it twice. Its command points to parts of it, which therefore need no
// allocations of their own.
type call struct {
	*redis.StringCmd
	script *script
	key    string
	first  argument
	words  [8]any

	// What a call that waits for a batch needs; see lane.
	ctx  context.Context //nolint:containedctx // the calls of a batch have different contexts
	node *redis.Client
	over bool          // the call was sent or has ended; lane.mu guards this field
	done chan struct{} // closed when the command has its reply
}

// argument is an argument of a command.
type argument []byte

// MarshalBinary implements encoding.BinaryMarshaler.
func (a *argument) MarshalBinary() ([]byte, error) { return *a, nil }

// NoRetry implements redis.Cmder.
func (*call) NoRetry() bool { return true }

func newCall(ctx context.Context, s *script, key string, first []byte, rest ...any) *call {
	c := &call{script: s, key: key, first: first, ctx: ctx}
	c.words = [8]any{"evalsha", s.hash, 1, &c.key, &c.first}
	c.command(append(c.words[:5], rest...))
	return c
}

func (c *call) command(words []any) {
	c.StringCmd = redis.NewStringCmd(c.ctx, words...)
	c.SetFirstKeyPos(3)
}

// run runs a script. Its reply has a byte, which is 0 if it changed nothing, and otherwise 1 plus the number of refunds that it
// made. The value follows; a settlement returns none.
func (s *Store) run(c *call, send func(*call) error) (v value, given int, done bool, err error) {
	err = send(c)
	if redis.HasErrorPrefix(err, "NOSCRIPT ") { // the script is new to the server, which has run nothing
		c.command(append([]any{"eval", c.script.source}, c.Args()[2:]...))
		err = s.send(c)
	}
	if err != nil {
		return "", 0, false, s.failed(err)
	}
	reply := c.Val()
	if reply == "" {
		return "", 0, false, fmt.Errorf("%w: empty reply", limiter.ErrFormat)
	}
	v = value(reply[1:])
	return v, int(reply[0]) - 1, reply[0] > 0, v.check()
}
