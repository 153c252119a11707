package lambdahttp

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/functions/edge"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// Edge decides which callers a distribution in front should refuse. The Recorder MUST sign lines.
type Edge struct {
	Watch    *edge.Watch
	IPv6Bits int // prefix length of the network that counts as one caller

	version atomic.Int64 // of the last rules
}

// changed reports whether the rules have a higher version than at the last call. The first call returns true: the rules
// can have changed while no environment was running.
func (e *Edge) changed(version int64) bool {
	for {
		last := e.version.Load()
		if version <= last {
			return false
		}
		if e.version.CompareAndSwap(last, version) {
			return true
		}
	}
}

// list writes a line for a caller whom the distribution should refuse. At the first request, and if the rules have changed,
// it writes a line without a caller, so that entries of older rules no longer act.
func (e *Environment) list(ctx context.Context, o *telemetry.Outcome) {
	d := &o.Decision
	inForce := e.Rules.Current()
	if e.Edge.changed(inForce.Version()) && !e.writeEdge(ctx, o.Time, inForce, telemetry.EdgeLine{Version: inForce.Version()}) {
		e.Edge.version.Store(0) // so that the next request writes it
	}
	if !d.FromCache || d.Limit == nil || !d.Limit.Edge || d.Superseded || d.Reason != limiter.ReasonNone || o.Err != nil {
		return
	}
	until := d.At.Add(d.RetryAfter)
	whom, byKey := watched(o)
	if inForce.Version() != d.Limit.Version || whom == "" || !e.Edge.Watch.Refused(o.Time, whom, until) {
		return
	}
	if inForce.ExemptsPart(o.Caller.IP) {
		return
	}
	if byKey && o.Caller.Key == nil {
		e.notListed(ctx, errGuessable)
		return
	}
	secret, err := e.Receipts.EdgeSecret(ctx, o.Time)
	if err != nil {
		e.notListed(ctx, err)
		return
	}
	c := edge.Config{Secret: secret, IPv6Bits: e.Edge.IPv6Bits}
	line := telemetry.EdgeLine{
		Key: c.Key(c.Address(o.Caller.IP.Addr())), Until: until.UnixMilli(), Reset: d.At.Add(d.ResetAfter + time.Millisecond - 1).UnixMilli(), // rounded up, as in an answer
		Limit: d.Limit.Name, Capacity: d.Capacity, Requests: d.Limit.Rate.Requests, Window: int64((d.Limit.WindowAt(d.At) + time.Second - 1) / time.Second),
		Version: d.Limit.Version, Period: d.Limit.Location() != nil,
	}
	if byKey {
		line.Key, line.Owner = c.Key(edge.APIKey(*o.Caller.Key)), c.Owner(o.Caller.APIKey)
	}
	e.writeEdge(ctx, o.Time, inForce, line)
}

// writeEdge adds the members that describe the rules to a line, and writes it. It reports whether the line could be signed.
func (e *Environment) writeEdge(ctx context.Context, now time.Time, inForce *rules.Rules, line telemetry.EdgeLine) bool {
	about := inForce.Edge()
	line.Time = now.UTC()
	line.Pass, line.Below, line.Credentials, line.APIKeyHeader, line.IPv6Bits = about.Pass, e.below(), about.Credentials, strings.ToLower(e.apiKeyHeader()), e.Edge.IPv6Bits
	line.Origins = strings.Fields(strings.ToLower(strings.Join(e.CORSOrigins, " ")))
	if err := e.Recorder.Edge(ctx, line); err != nil {
		e.notListed(ctx, err)
		return false
	}
	return true
}

// below returns the number of segments that a stage or a base path can add before an endpoint. Not each distribution hides
// the stage.
func (e *Environment) below() int {
	n := 1
	for _, path := range e.BasePaths {
		n = max(n, strings.Count(path, "/"))
	}
	return n
}

func (e *Environment) notListed(ctx context.Context, err error) {
	e.Logger.LogAttrs(ctx, slog.LevelWarn, "caller not listed for the distribution", slog.Any("err", err))
}

// watched returns a name for the caller whom the limit of a refusal counts: an address, or an API key. Each key of an id
// has its own name. The name is "" if the limit counts anything else.
func watched(o *telemetry.Outcome) (whom string, byKey bool) {
	i := slices.IndexFunc(o.Charges, func(c limiter.Charge) bool { return c.Limit == o.Decision.Limit })
	switch {
	case i < 0:
		return "", false
	case o.Charges[i].Subject == limiter.IP(o.Caller.IP):
		return o.Caller.IP.String(), false
	case o.Charges[i].Subject != limiter.APIKey(o.Caller.APIKey):
		return "", false
	case o.Caller.Key == nil:
		return o.Caller.APIKey, true
	}
	sum := sha256.Sum256([]byte(*o.Caller.Key))
	return string(sum[:]), true
}

// addKey adds the API key to a caller whom it identified. It adds only a key that nobody can guess from its entry:
// everybody who reads the list can hash guesses.
func addKey(c *caller.Caller, key string) {
	if c.APIKey != "" && caller.WellFormed(key) {
		c.Key = &key
	}
}

var (
	errGuessable = errors.New("edge: an API key that readers of the list could guess, because Weir did not generate it; generate one with weir keys set")
	errNoList    = errors.New("edge: no list; set EDGE_LIST, or remove the subscription")
)

func (f *forwarder) listCallers(ctx context.Context, lines []string) error {
	switch {
	case len(lines) == 0:
		return nil
	case f.List == nil:
		f.dropped(ctx, len(lines), errNoList)
		return nil
	}
	now := f.Clock()
	secret, err := f.Receipts.EdgeSecret(ctx, now)
	if err != nil {
		return err
	}
	before := f.listed.current()
	config := edge.Config{Version: before} // Write ignores lines of older rules
	entries := map[string]edge.Entry{}
	var numbers []string
	accepted := map[string]bool{}
	for _, text := range lines {
		var line telemetry.EdgeLine
		number, ok, err := f.accept(ctx, text, &line, accepted)
		if err != nil {
			return err
		} else if !ok || line.Version < config.Version {
			continue
		}
		if line.Version > config.Version {
			clear(entries)
		}
		numbers = append(numbers, number)
		accepted[number] = true
		config = edge.Config{Version: line.Version, Secret: secret, APIKeyHeader: line.APIKeyHeader, IPv6Bits: line.IPv6Bits, Pass: line.Pass, Below: line.Below, Credentials: line.Credentials, Origins: line.Origins}
		e := edge.Entry{Until: time.UnixMilli(line.Until), Version: line.Version, Name: line.Limit, Capacity: line.Capacity, Requests: line.Requests, Window: time.Duration(line.Window) * time.Second, Reset: time.UnixMilli(line.Reset), Period: line.Period, Owner: line.Owner, Refused: line.Time}
		if line.Key != "" && !f.listed.covers(line.Key, e) {
			entries[line.Key] = e
		}
	}
	if len(entries) > 0 || config.Version > before {
		switch err := f.writer.Write(ctx, now, config, entries); {
		case errors.Is(err, edge.ErrConflict): // a caller who still sends requests is in a later line
			f.dropped(ctx, len(lines), err)
			return nil
		case err != nil:
			return err
		}
		f.listed.add(config.Version, entries)
	}
	f.repeated.add(numbers)
	return nil
}

// listed remembers the last entries that this environment has written. Each environment of a flooded function logs the
// caller, and a write has several calls, so a repeated one must cost none. Its zero value remembers none.
type listed struct {
	mu      sync.Mutex
	version int64                 // of the rules
	entries map[string]edge.Entry // by key
}

// maxListed bounds the memory.
const maxListed = 10_000

// current returns the highest version of rules that was written.
func (l *listed) current() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.version
}

// covers reports whether an entry was written so short a time before that it is still in the list.
func (l *listed) covers(key string, e edge.Entry) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, ok := l.entries[key]
	return ok && last.Version == e.Version && !last.Until.Before(e.Until) && e.Refused.Before(last.Refused.Add(edge.RelistAfter))
}

func (l *listed) add(version int64, entries map[string]edge.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if version < l.version { // another event was faster
		return
	}
	if l.entries == nil || l.version < version || len(l.entries) > maxListed {
		l.version, l.entries = version, map[string]edge.Entry{}
	}
	maps.Copy(l.entries, entries)
}
