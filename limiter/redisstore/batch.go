package redisstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// mostInFlight bounds the script calls and batches of this process that are in flight on one server. Further calls
// wait until one of these returns, and then share a batch.
const mostInFlight = 2

// If no call returns for the time stalledAfter, connections may be lost. Waiting calls are then
// sent on other connections, until mostStalled calls and batches are in flight.
const (
	stalledAfter = 10 * time.Millisecond
	mostStalled  = 16
)

// mostBatched bounds the calls of a batch, because a server executes a whole batch before it reads from
// other connections.
const mostBatched = 128

// send sends a call, and sends it again only if a node of a cluster did not run it. Concurrent calls share pipelines. A call
// whose context has ended is not sent.
func (s *Store) send(c *call) error {
	c.node = server(c.ctx, s.client, c.key)
	if c.node == nil {
		return s.client.Process(c.ctx, c)
	}
	known, ok := s.lanes.Load(c.node.Options().Addr)
	if !ok {
		known, _ = s.lanes.LoadOrStore(c.node.Options().Addr, &lane{following: make(chan struct{}, mostStalled)})
	}
	l := known.(*lane) //nolint:forcetypeassert // all values of the map are lanes
	if l.enter(c) {
		defer l.leave()
		return s.client.Process(c.ctx, c)
	}
	err := l.wait(c)
	if redirected(err) {
		return l.follow(s.client, c)
	}
	return err
}

// follow sends a redirected call to the node that the client finds. Each call is sent alone, because the client of a cluster
// pauses before it follows the redirections of a pipeline. At most mostStalled of these calls are in flight.
func (l *lane) follow(client Client, c *call) error {
	select {
	case l.following <- struct{}{}:
		defer func() { <-l.following }()
		return client.Process(c.ctx, c)
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// redirected reports whether a node of a cluster did not run a command, because another node has the
// key.
func redirected(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED ") || redis.HasErrorPrefix(err, "ASK ")
}

// lane contains the script calls of this process to one server.
type lane struct {
	mu       sync.Mutex
	inFlight int       // number of calls and batches
	returned time.Time // when a call or batch last returned, or when a call began while none was in flight
	waiting  []*call   // waiting calls, in order of arrival
	watched  bool      // a timer will run watch

	following chan struct{} // has an element for each call that follow sends
}

// enter reports whether a call may be sent now. The caller MUST then call leave. If not, the call waits for a batch.
func (l *lane) enter(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inFlight == 0 {
		l.returned = time.Now()
	}
	if l.inFlight < mostInFlight || l.stalled() {
		l.inFlight++
		return true
	}
	c.over, c.done = false, make(chan struct{}) // an earlier command of the call may have waited, too
	l.waiting = append(l.waiting, c)
	l.keepWatch()
	return false
}

// stalled reports whether one more batch may be sent because no call has returned for the time
// stalledAfter.
func (l *lane) stalled() bool {
	return l.inFlight < mostStalled && time.Since(l.returned) >= stalledAfter
}

// keepWatch starts a timer for watch if calls wait. The caller holds the lock.
func (l *lane) keepWatch() {
	if len(l.waiting) > 0 && !l.watched {
		l.watched = true
		time.AfterFunc(max(stalledAfter-time.Since(l.returned), time.Millisecond), l.watch)
	}
}

// watch sends the waiting calls if the lane is stalled. It runs again until no call waits.
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

// leave ends a call after enter. The waiting calls form the next batch.
func (l *lane) leave() {
	if batch := l.next(); batch != nil {
		go l.run(batch)
	}
}

// next records the end of a call or batch, and returns the next batch. If no call waits, it returns nil
// and decreases the number in flight.
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

// take removes a batch from the waiting calls and returns it, or nil if no call waits. It skips each call whose
// context has ended, even if the method wait has not noticed the end. The caller holds the lock.
func (l *lane) take() (batch []*call) {
	n := 0
	for _, c := range l.waiting {
		if len(batch) == mostBatched {
			break
		}
		n++
		if !c.over && c.ctx.Err() == nil {
			c.over = true
			batch = append(batch, c)
		}
	}
	l.waiting = l.waiting[n:]
	if len(l.waiting) == 0 {
		l.waiting = nil
	}
	return batch
}

// run sends batches until no call waits.
func (l *lane) run(batch []*call) {
	for ; batch != nil; batch = l.next() {
		sendBatch(batch)
	}
}

// sendBatch sends a batch once, and waits for its replies until the last deadline of its calls. If a hook of
// the client panics, all calls of the batch fail.
func sendBatch(batch []*call) {
	ctx := context.Background()
	if last, ok := latest(batch); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, last)
		defer cancel()
	}
	defer func() {
		p := recover() // without recover, a panic in this goroutine would end the process
		for _, c := range batch {
			if p != nil {
				c.SetErr(fmt.Errorf("redisstore: client: panic in a pipeline: %v", p))
			}
			close(c.done)
		}
	}()
	pipe := batch[len(batch)-1].node.Pipeline() // the last call has the newest client; older clients of the server can be closed
	for _, c := range batch {
		_ = pipe.Process(ctx, c) // Process only queues the command
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
}

// latest returns the latest deadline of the calls of a batch. ok is false if a call has no deadline.
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

// wait waits for the reply to c and returns its error. If the context ends first, the result is unknown,
// because c may have been sent.
func (l *lane) wait(c *call) error {
	select {
	case <-c.done:
		return c.Err()
	case <-c.ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.over = true
	return c.ctx.Err()
}
