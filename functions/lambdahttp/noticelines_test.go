package lambdahttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/mac"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// bus is an event bus that accepts at most most notices of a call.
type bus struct {
	most int
	got  []string
}

var errBus = errors.New("bus down")

func (b *bus) Put(_ context.Context, notices []lambdahttp.Notice) (sent int, err error) {
	for _, n := range notices {
		if sent == b.most {
			return sent, errBus
		}
		b.got = append(b.got, string(n.Detail))
		sent++
	}
	return sent, nil
}

// noticeLine returns the line that another function with the keys of ring writes for a notice at a time.
func noticeLine(t *testing.T, ring *mac.Ring, at time.Time, percent int) string {
	t.Helper()
	var out bytes.Buffer
	r := telemetry.New(&out, "dev", nil)
	if ring != nil {
		r.SignWith(ring.Sign)
	}
	month := storetest.Must(limiter.NewLimit(limiter.Limit{Name: "month", Rule: `GET /<a>&"é`, Rate: algo.Rate{Requests: 10,
		Calendar: algo.Calendar{Period: algo.Month}}}))
	if err := r.Notice(ctx, limiter.Notice{Time: at, Subject: limiter.User("alice"), Limit: month, Percent: percent, Used: 8, Capacity: 10,
		Start: at, End: at.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(out.String(), "\n")
	return line
}

// The function forward sends a signed notice once, without its signature. It drops and counts other lines.
func TestForward_notices(t *testing.T) {
	d := newDecided(t, `{"rules":[]}`)
	to := &bus{most: 1000}
	d.e.Notices = to
	ring := d.e.MACs
	good := noticeLine(t, ring, noon, 80)
	var reordered map[string]any
	if err := json.Unmarshal([]byte(noticeLine(t, ring, noon, 81)), &reordered); err != nil {
		t.Fatal(err)
	}
	reordered["level"] = "INFO" // Lambda may add members
	lines := []string{
		good, string(storetest.Must(json.Marshal(reordered))), "CWL CONTROL MESSAGE: Checking health of destination",
		`{"weir":"refused","refused":3}`,
	}
	dropped := []string{
		noticeLine(t, nil, noon, 82),
		noticeLine(t, mac.Fixed("dev", []byte("other")), noon, 83),
		strings.Replace(noticeLine(t, ring, noon, 84), `"percent":84`, `"percent":99`, 1),
		noticeLine(t, ring, noon.Add(-30*time.Minute-time.Nanosecond), 85),
		noticeLine(t, ring, noon.Add(time.Minute+time.Nanosecond), 86),
		`{"weir":"notice","percent":"a"}`,
		`{"weir":"notice"}`,
	}
	for range 2 { // CloudWatch Logs can deliver lines twice
		if err := d.lines(append(lines, dropped...)...); err != nil {
			t.Fatal(err)
		}
	}
	if len(to.got) != 2 || !strings.Contains(to.got[0], `"percent":80`) || !strings.Contains(to.got[1], `"percent":81`) ||
		strings.Contains(strings.Join(to.got, ""), `"mac"`) || strings.Contains(strings.Join(to.got, ""), `"number"`) {
		t.Errorf("got notices %q, want those of 80 and 81 percent without a signature", to.got)
	}
	if got, want := d.counted("LinesDropped"), 2*len(dropped)+2; got != want {
		t.Errorf("dropped lines: got %d, want %d", got, want)
	}
}

// A line that one event contains several times is sent once. A line that was cut, and every line while the table has no
// keys, is dropped and counted, because a repetition of the event would not help.
func TestForward_notices_dropped(t *testing.T) {
	d := newDecided(t, `{"rules":[]}`)
	to := &bus{most: 1000}
	d.e.Notices = to
	good := noticeLine(t, d.e.MACs, noon, 80)
	if err := d.lines(good, good, good, good[:len(good)/2], `{"weir":"not`); err != nil || len(to.got) != 1 {
		t.Errorf("got %v and the notices %q, want one", err, to.got)
	}
	d.e.MACs = mac.NewRing(mac.Scope{}, func(context.Context) ([]byte, error) {
		return nil, fmt.Errorf("read: %w", records.ErrNoPair)
	})
	if err := d.lines(good, `{"weir":"notice"}`); err != nil || len(to.got) != 1 {
		t.Errorf("without keys: got %v and the notices %q, want no error and no more", err, to.got)
	}
	if got := d.counted("LinesDropped"); got != 3 {
		t.Errorf("dropped lines: got %d, want 1 cut and 2 without keys", got)
	}
}

// If the bus or the keys fail, the event fails, and its repetition sends the other notices.
func TestForward_notices_failed(t *testing.T) {
	d := newDecided(t, `{"rules":[]}`)
	to := &bus{most: 3}
	d.e.Notices = to
	var lines []string
	for i := range 5 {
		lines = append(lines, noticeLine(t, d.e.MACs, noon, i+1))
	}
	if err := d.lines(lines...); !errors.Is(err, errBus) || len(to.got) != 3 {
		t.Fatalf("got %v and %d notices, want an error after 3", err, len(to.got))
	}
	working := d.e.MACs
	d.e.MACs = mac.NewRing(mac.Scope{}, func(context.Context) ([]byte, error) { return nil, errBus })
	if err := d.lines(lines...); !errors.Is(err, errBus) || len(to.got) != 3 {
		t.Fatalf("without keys: got %v and %d notices, want an error and no more notices", err, len(to.got))
	}
	d.e.MACs = working
	if err := d.lines(lines...); err != nil || len(to.got) != 5 {
		t.Fatalf("got %v and %d notices, want 5 without an error", err, len(to.got))
	}
	for i, text := range to.got {
		if want := fmt.Sprintf(`"percent":%d,`, i+1); !strings.Contains(text, want) {
			t.Errorf("notice %d: got %s, want %s", i, text, want)
		}
	}
}

// A line of the access log charges even if a client has added a kind to it. Without a bus, notices are
// dropped.
func TestForward_kinds(t *testing.T) {
	d := newDecided(t, eachCount)
	if err := d.lines(strings.Replace(line("a", d.sealed(), "200", "5"), "{", `{"weir":"notice",`, 1), noticeLine(t, d.e.MACs, noon,
		80)); err != nil {
		t.Fatal(err)
	}
	d.want("a line of the access log", "calls 1, bytes 5")
	if dropped := d.counted("LinesDropped"); dropped != 1 {
		t.Errorf("got %d dropped lines, want 1", dropped)
	}
}
