package lambdahttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-limits/weir/functions/mac"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// NoticeBus is where a function sends notices.
type NoticeBus interface {
	// Put sends notices in their order, and returns how many it sent.
	Put(ctx context.Context, notices []Notice) (sent int, err error)
}

// Notice is the notice in a log line, as JSON without its signature.
type Notice struct {
	Time   time.Time
	Detail []byte
}

var errNoBus = errors.New("notice: no event bus; set NOTICE_BUS, or remove the subscription")

func (f *forwarder) sendNotices(ctx context.Context, lines []string) error {
	switch {
	case len(lines) == 0:
		return nil
	case f.Notices == nil:
		f.dropped(ctx, len(lines), errNoBus)
		return nil
	}
	var notices []Notice
	var numbers []string
	accepted := map[string]bool{}
	for _, text := range lines {
		var line telemetry.NoticeLine
		number, ok, err := f.accept(ctx, text, &line, accepted)
		if err != nil {
			return err
		} else if !ok {
			continue
		}
		accepted[number] = true
		line.Number, line.MAC = "", ""
		detail, err := json.Marshal(line)
		if err != nil {
			return err
		}
		notices, numbers = append(notices, Notice{line.Time, detail}), append(numbers, number)
	}
	sent, err := f.Notices.Put(ctx, notices)
	f.repeated.add(numbers[:sent])
	return err
}

// accept verifies a line. It drops and counts a line that must not be acted on; ok is then false. An error means that no
// line can be verified. accepted has the numbers of the lines of this event.
func (f *forwarder) accept(ctx context.Context, text string, line telemetry.Signed, accepted map[string]bool) (number string, ok bool,
	err error) {
	number, err = f.verify(ctx, text, line)
	if err == nil && accepted[number] {
		err = errRepeated
	}
	if errors.Is(err, errDropped) {
		f.dropped(ctx, 1, err)
		return "", false, nil
	}
	return number, err == nil, err
}

// errDropped means that a line must not be acted on.
var errDropped = errors.New("log line")

var errRepeated = fmt.Errorf("%w: repeated", errDropped)

// maxAge is the largest age of a line: Lambda repeats an event, and the log can be late.
const maxAge = 30 * time.Minute

// maxAhead is the largest difference between the clocks of two functions.
const maxAhead = time.Minute

// verify parses a line, and returns the number in its signature. The error wraps errDropped if the line is not
// signed, old or repeated. Other errors mean that the keys cannot be read.
func (f *forwarder) verify(ctx context.Context, text string, line telemetry.Signed) (number string, err error) {
	if f.MACs == nil {
		return "", fmt.Errorf("%w: %w", errDropped, errNoKeys)
	}
	if err := json.Unmarshal([]byte(text), line); err != nil {
		return "", fmt.Errorf("%w: %w", errDropped, err)
	}
	unsigned, signature, err := telemetry.Unsigned(line)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errDropped, err)
	}
	now := f.Clock()
	err = f.MACs.Verify(ctx, now, unsigned, signature.MAC)
	switch age := now.Sub(signature.Time); {
	case errors.Is(err, mac.ErrForged):
		return "", fmt.Errorf("%w: no valid MAC; other code wrote it, or SIGN_LINES of the function that wrote it is not true", errDropped)
	case err != nil:
		return "", err
	case age > maxAge || age < -maxAhead:
		return "", fmt.Errorf("%w: written %s ago, want at most %s", errDropped, age.Round(time.Second), maxAge)
	case !f.repeated.isNew(signature.Number):
		return "", errRepeated
	}
	return signature.Number, nil
}

// repeated remembers the numbers of the last lines that this environment has acted on: at least maxNumbers. Its zero
// value remembers none.
type repeated struct {
	mu           sync.Mutex
	last, before map[string]bool
}

// maxNumbers bounds the memory. A number has 26 bytes.
const maxNumbers = 10_000

func (r *repeated) isNew(number string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.last[number] && !r.before[number]
}

func (r *repeated) add(numbers []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, number := range numbers {
		if len(r.last) >= maxNumbers {
			r.before, r.last = r.last, nil
		}
		if r.last == nil {
			r.last = make(map[string]bool)
		}
		r.last[number] = true
	}
}
