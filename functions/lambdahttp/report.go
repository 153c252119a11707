package lambdahttp

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/aws/aws-lambda-go/events"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/mac"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// report charges what a back end reports about an answer.
func (f *logReader) report(ctx context.Context, event *logEvent) ([]byte, error) {
	costs, err := parseCosts(event.Cost)
	if err != nil {
		return f.invalid(ctx, err)
	}
	answer := known{costs, event.Status, unknownLength}
	if event.Bytes != nil {
		answer.bytes = max(unknownLength, *event.Bytes)
	}
	reason, err := f.charge(ctx, event.Report.Report, &answer)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return json.Marshal(contract.Reported{Charged: reason == "", Reason: reason})
}

// invalid counts a report that is not valid, and returns the answer to it.
func (f *logReader) invalid(ctx context.Context, err error) ([]byte, error) {
	f.rejected(1)
	f.Logger.LogAttrs(ctx, slog.LevelWarn, "report rejected", slog.Any("err", err))
	return json.Marshal(contract.Reported{Reason: contract.ReasonInvalid})
}

func (f *logReader) rejected(n int) {
	f.Recorder.Settled(telemetry.Settlement{Time: f.Clock(), Rejected: n})
}

// unknownLength is the length of an answer that an event does not have.
const unknownLength = -1

// known contains the values that an event has about an answer.
type known struct {
	costs  map[string]*int64 // by the name of a limit; an empty name means all limits of the request
	status int               // 0 if it is unknown
	bytes  int64             // unknownLength if it is unknown
}

const maxCosts = 32

// parseCosts parses a number, or an object of numbers by the names of limits. null is an error, because
// JSON.stringify writes it for NaN.
func parseCosts(text json.RawMessage) (costs map[string]*int64, err error) {
	if len(text) == 0 {
		return nil, nil
	}
	if text[0] != '{' {
		text = slices.Concat([]byte(`{"":`), text, []byte("}"))
	}
	if err := json.Unmarshal(text, &costs); err != nil {
		return nil, fmt.Errorf(`cost: %w (want 812, or {"input": 812, "output": 95})`, err)
	}
	if len(costs) > maxCosts {
		return nil, fmt.Errorf("cost: got %d numbers, want at most %d", len(costs), maxCosts)
	}
	for _, n := range costs {
		if n == nil {
			return nil, errors.New(`cost: got null, want a number; leave out a cost that is unknown`)
		} else if *n < 0 || *n > httplimit.MaxReport {
			return nil, fmt.Errorf("cost: got %d, want 0 to %d", *n, httplimit.MaxReport)
		}
	}
	return costs, nil
}

// charge charges those limits in a sealed value whose cost is known, by force and at the present instant. reason is why it charges
// nothing in a report that must not be repeated.
func (f *logReader) charge(ctx context.Context, sealed string, known *known) (reason string, err error) {
	now := f.Clock()
	all, err := f.open(ctx, now, sealed)
	if errors.Is(err, mac.ErrForged) {
		f.rejected(1)
		return contract.ReasonForged, nil
	} else if err != nil {
		return "", err
	}
	var charges []limiter.Charge
	found := false
	for _, c := range all {
		cost, ok := known.cost(c.Limit)
		found = found || ok
		if cost > 0 {
			c.Cost, c.Force = cost, true
			charges = append(charges, c)
		}
	}
	switch {
	case !found:
		f.rejected(len(known.costs))
		return contract.ReasonNothing, nil
	case len(charges) == 0:
		return "", nil
	}
	d, err := f.Limiter.Take(ctx, now, charges)
	if err == nil && d.Reason != limiter.ReasonNone {
		err = fmt.Errorf("the store did not charge it (%s)", d.Reason)
	}
	return "", err
}

// cost returns the cost of the answer on a limit. ok is false if it is unknown.
func (k *known) cost(l *limiter.Limit) (n int64, ok bool) {
	switch l.Count.Of {
	case limiter.CountCost:
		if given := cmp.Or(k.costs[""], k.costs[l.Name]); given != nil {
			return *given, true
		}
	case limiter.CountBytes:
		return max(0, k.bytes), k.bytes != unknownLength
	case limiter.CountFailures:
		if k.status != 0 && l.Count.Failures.Has(k.status) {
			n = 1
		}
		return n, k.status != 0
	case limiter.CountRequests, limiter.CountConcurrent:
	}
	return 0, false
}

const (
	// maxLines bounds the uncompressed size of an event of CloudWatch Logs. An event has at most 1 MB of
	// lines before compression.
	maxLines = 8 << 20
	// reporting bounds the reports that are charged at the same time.
	reporting = 16
)

// chargeLines charges the limits of requests in lines of an access log. An error means that Lambda must repeat the event;
// what was charged then counts twice.
func (f *logReader) chargeLines(ctx context.Context, lines []string) error {
	var wg sync.WaitGroup
	slots, failed := make(chan struct{}, reporting), make([]error, len(lines))
	for i, text := range lines {
		sealed, known, err := parseLine(text)
		if err != nil {
			_, _ = f.invalid(ctx, err)
		}
		if sealed == "" {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			_, failed[i] = f.charge(ctx, sealed, &known)
		})
	}
	wg.Wait()
	failed = slices.DeleteFunc(failed, func(err error) bool { return err == nil })
	if len(failed) > 0 {
		return fmt.Errorf("report: %d of %d lines not charged: %w", len(failed), len(lines), failed[0])
	}
	return nil
}

// uncompressed returns the lines in an event of CloudWatch Logs, each once.
func uncompressed(data []byte) (lines []string, err error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(r, maxLines+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("log: %w", err)
	case len(text) > maxLines:
		return nil, fmt.Errorf("log: got more than %d bytes, want at most that", maxLines)
	}
	var log events.CloudwatchLogsData
	if err := json.Unmarshal(text, &log); err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	seen := map[string]bool{"": false}
	for _, event := range log.LogEvents {
		if !seen[event.ID] {
			lines = append(lines, event.Message)
		}
		seen[event.ID] = event.ID != ""
	}
	return lines, nil
}

// parseLine parses a line in JSON. Its values are strings or numbers. sealed is "" if the line has
// no value for a report. API Gateway does not escape quotes in a line, so a client can add members by its User-Agent.
// Therefore, a line with a repeated member is an error, and charges nothing. So is a line that was cut: API Gateway cuts
// events of execution logs at 1,024 bytes, and marks them.
func parseLine(message string) (sealed string, k known, err error) {
	if objectOf([]byte(message)) == nil {
		if strings.Contains(message, `"`+contract.LogReport+`"`) {
			err = fmt.Errorf("access log: got a line of %d bytes with a report, want one JSON object; was the line cut?", len(message))
		}
		return "", k, err // the line does not have the documented format, so it charges nothing
	}
	values, members := map[any]string{}, json.NewDecoder(strings.NewReader(message))
	for _, _ = members.Token(); members.More(); {
		name, _ := members.Token()
		if _, repeated := values[name]; repeated {
			return "", k, fmt.Errorf("access log: got the member %.40q twice in one line, want it once", name)
		}
		var value json.RawMessage
		_ = members.Decode(&value)
		values[name] = strings.Trim(string(value), `"`)
	}
	number := func(name string, unknown int64) int64 {
		if n, err := strconv.ParseInt(values[name], 10, 64); err == nil && n >= 0 {
			return n
		}
		return unknown
	}
	k.status, k.bytes = int(number(contract.LogStatus, 0)), number(contract.LogLength, unknownLength)
	return strings.TrimPrefix(values[contract.LogReport], "-"), k, nil
}
