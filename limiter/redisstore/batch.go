package redisstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// mostInFlight is how many script calls and batches of this process are in flight on one server.
// Further calls wait until one of these returns, and then share a batch.
const mostInFlight = 2

// If nothing in flight has returned for stalledAfter, the connections may be lost. Others are then sent
// beside them, until mostStalled are in flight.
const (
	stalledAfter = 10 * time.Millisecond
	mostStalled  = 16
)

// mostBatched bounds a batch: a server executes it before it reads from other connections.
const mostBatched = 128

// batched is a client whose concurrent script calls share pipelines. It sends a call at most once, and
// not at all if the context of the call ends first.
type batched struct {
	Client
	lanes sync.Map // *lane by address of the server
}

// EvalSha implements redis.Scripter.
func (b *batched) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	node := server(ctx, b.Client, keys[0])
	if node == nil {
		return b.Client.EvalSha(ctx, sha, keys, args...)
	}
	known, ok := b.lanes.Load(node.Options().Addr)
	if !ok {
		known, _ = b.lanes.LoadOrStore(node.Options().Addr, new(lane))
	}
	l := known.(*lane) //nolint:forcetypeassert // the map holds nothing else
	c := l.enter(ctx, node, sha, keys[0], args)
	if c == nil {
		defer l.leave()
		return b.Client.EvalSha(ctx, sha, keys, args...)
	}
	cmd := l.wait(c)
	if redirected(cmd.Err()) {
		return b.Client.EvalSha(ctx, sha, keys, args...)
	}
	return cmd
}

// evalSha returns the command that runs a script on key.
func evalSha(ctx context.Context, sha, key string, args []any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, append([]any{"evalsha", sha, 1, key}, args...)...)
	cmd.SetFirstKeyPos(3)
	return cmd
}

// redirected reports whether a node of a cluster did not run a command, because another node has the
// key.
func redirected(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED ") || redis.HasErrorPrefix(err, "ASK ")
}

// lane is the script calls of this process to one server.
type lane struct {
	mu       sync.Mutex
	inFlight int       // calls and batches
	returned time.Time // when the last of them returned, or the first one was sent
	waiting  []*call   // in order of arrival
	watched  bool      // watch runs soon
}

// call is a script call that waits for a batch.
type call struct {
	ctx  context.Context //nolint:containedctx // it is the deadline of one call among several
	node *redis.Client
	cmd  *redis.Cmd
	over bool          // sent, or no longer wanted; the lane guards it
	done chan struct{} // closed when cmd has its reply
}

// enter returns nil if a call may be sent now; then leave MUST follow. Otherwise the call waits.
func (l *lane) enter(ctx context.Context, node *redis.Client, sha, key string, args []any) *call {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inFlight == 0 {
		l.returned = time.Now()
	}
	if l.inFlight < mostInFlight || l.stalled() {
		l.inFlight++
		return nil
	}
	c := &call{ctx: ctx, node: node, cmd: evalSha(ctx, sha, key, args), done: make(chan struct{})}
	l.waiting = append(l.waiting, c)
	l.keepWatch()
	return c
}

// stalled reports whether one more may be in flight, because nothing has returned for long.
func (l *lane) stalled() bool {
	return l.inFlight < mostStalled && time.Since(l.returned) >= stalledAfter
}

// keepWatch runs watch when the lane may be stalled. The caller holds the lock.
func (l *lane) keepWatch() {
	if len(l.waiting) > 0 && !l.watched {
		l.watched = true
		time.AfterFunc(max(stalledAfter-time.Since(l.returned), time.Millisecond), l.watch)
	}
}

// watch sends the calls that wait if the lane is stalled. It runs again until no call waits.
func (l *lane) watch() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stalled() {
		if batch := l.take(); batch != nil {
			l.inFlight++
			go l.run(batch)
		}
	}
	l.watched = false
	l.keepWatch()
}

// leave ends a call that entered. The calls that wait form the next batch.
func (l *lane) leave() {
	if batch := l.next(); batch != nil {
		go l.run(batch)
	}
}

// next ends a call or batch, and takes the next batch. If there is none, one less is in flight.
func (l *lane) next() []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.returned = time.Now()
	batch := l.take()
	if batch == nil {
		l.inFlight--
	}
	return batch
}

// take takes a batch out of the calls that wait; nil if there is none. It skips a call whose context has
// ended, also before wait notices that. The caller holds the lock.
func (l *lane) take() (batch []*call) {
	n := 0
	for _, c := range l.waiting {
		if len(batch) == mostBatched {
			break
		}
		if n++; !c.over && c.ctx.Err() == nil {
			c.over = true
			batch = append(batch, c)
		}
	}
	if l.waiting = l.waiting[n:]; len(l.waiting) == 0 {
		l.waiting = nil
	}
	return batch
}

// run sends batches until no call waits.
func (l *lane) run(batch []*call) {
	for ; batch != nil; batch = l.next() {
		send(batch)
	}
}

// send sends a batch once, and waits for its replies until the last deadline of its calls. A panic in a
// hook of the client fails all calls of the batch.
func send(batch []*call) {
	ctx := context.Background()
	if last, ok := latest(batch); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, last)
		defer cancel()
	}
	defer func() {
		p := recover() // nobody else can: a panic in this goroutine would end the process
		for _, c := range batch {
			if p != nil {
				c.cmd.SetErr(fmt.Errorf("redisstore: client: panic in a pipeline: %v", p))
			}
			close(c.done)
		}
	}()
	pipe := batch[len(batch)-1].node.Pipeline() // an earlier client of the server may be closed
	for _, c := range batch {
		_ = pipe.Process(ctx, final{c.cmd}) // it only queues
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
}

// latest returns the last deadline of a batch; ok is false if a call has none.
func latest(batch []*call) (last time.Time, ok bool) {
	for _, c := range batch {
		deadline, bounded := c.ctx.Deadline()
		if !bounded {
			return last, false
		}
		if deadline.After(last) {
			last = deadline
		}
	}
	return last, true
}

// wait returns the command of c with its reply. If the context ends first, the reply is unknown: c may
// have been sent.
func (l *lane) wait(c *call) *redis.Cmd {
	select {
	case <-c.done:
		return c.cmd
	case <-c.ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.over = true
	return redis.NewCmdResult(nil, c.ctx.Err())
}
