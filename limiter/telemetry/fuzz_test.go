package telemetry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// FuzzRecorder searches for a caller, a limit or a decision that produces an invalid line of metrics,
// or a line that contains a user.
func FuzzRecorder(f *testing.F) {
	f.Add("alice", "k1", "search", "dev", int64(1500), int64(0), 3, uint8(0))
	f.Add("a\n{\"_aws\":1}", "\x00", "x\"}", "de\"v", int64(-1), int64(1)<<62, -1, uint8(0xff))
	f.Add("\xff\xfe", "", "", "", int64(0), int64(-1), 0, uint8(2))
	f.Fuzz(func(t *testing.T, user, key, name, namespace string, took, pause int64, calls int, bits uint8) {
		var log bytes.Buffer
		r := telemetry.New(&log, namespace, nil)
		r.Rules(noon, int64(calls), noon.Add(time.Duration(pause)), []string{key, name, "x"}, nil)
		d := decided{charges: []limiter.Charge{{Limit: &limiter.Limit{Rule: key}}, {Limit: &limiter.Limit{Rule: name}}}}
		d.Decision = limiter.Decision{Allowed: bits&1 != 0, FromCache: bits&2 != 0, StoreCalls: calls}
		if bits&4 != 0 {
			d.Limit = &limiter.Limit{Name: name, Rule: key}
		}
		if bits&8 != 0 {
			tried := *limit("tried")
			tried.Name = name
			d.Shadowed = &tried
		}
		caller := caller.Caller{User: user, APIKey: key, Claims: map[string][]string{name: {user}}, IP: netip.MustParsePrefix("203.0.113.7/32")}
		var err error
		if bits&16 != 0 {
			err = errors.New(user)
		}
		now := noon
		for range 3 {
			r.Record(d.outcome(now, time.Duration(took), caller, err))
			now = now.Add(time.Duration(pause))
		}
		r.RulesRefused(now)
		if len(log.Bytes()) > 8*(2000+6*len(namespace)+6*len(name)) {
			t.Errorf("got %d bytes, want at most %d", log.Len(), 8*(2000+6*len(namespace)+6*len(name)))
		}
		for line := range bytes.Lines(log.Bytes()) {
			var members map[string]json.RawMessage
			if err := json.Unmarshal(line, &members); err != nil || members["_aws"] == nil && members["weir"] == nil {
				t.Errorf("line %q: got error %v, want a line of metrics or of a refused caller", line, err)
			}
			if len(user) > 20 && bytes.Contains(line, []byte(user)) && user != name && user != namespace {
				t.Errorf("line %q contains the user %q, want its hash", line, user)
			}
		}
	})
}
