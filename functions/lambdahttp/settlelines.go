package lambdahttp

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weir-limits/weir/functions/contract"
)

const (
	// maxLines bounds the uncompressed size of an event of CloudWatch Logs. An event has at most 1 MB of
	// lines before compression.
	maxLines = 8 << 20
	// settling bounds the settlements that run at the same time.
	settling = 16
)

type accessLine struct {
	receipt string
	known   known
}

// settleLines settles the requests in lines of an access log. An error means that Lambda must repeat the event.
func (f *forwarder) settleLines(ctx context.Context, lines []string) error {
	var (
		wg     sync.WaitGroup
		slots  = make(chan struct{}, settling)
		failed atomic.Int64
		first  atomic.Pointer[error]
	)
	for _, text := range lines {
		line, err := parseLine(text)
		if err != nil {
			_, _ = f.invalid(ctx, err)
		}
		if line.receipt == "" {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			err := f.settle(ctx, f.lines, line.receipt, line.known)
			if _, final := reasonOf(err); !final {
				failed.Add(1)
				first.CompareAndSwap(nil, &err)
			}
		})
	}
	wg.Wait()
	if err := first.Load(); err != nil {
		return fmt.Errorf("settle: %d of %d lines not settled: %w", failed.Load(), len(lines), *err)
	}
	return nil
}

// uncompressed returns the lines in an event of CloudWatch Logs.
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
	var log struct {
		LogEvents []struct {
			Message string `json:"message"`
		} `json:"logEvents"`
	}
	if err := json.Unmarshal(text, &log); err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	for _, event := range log.LogEvents {
		lines = append(lines, event.Message)
	}
	return lines, nil
}

// parseLine parses a line in JSON. Its values are strings or numbers. The receipt of the line is "" if the line has
// none. API Gateway does not escape quotes in a line, so a client can add members by its User-Agent. Therefore, a
// line with a repeated member is an error, and settles nothing. So is a line that was cut: API Gateway cuts events of
// execution logs at 1,024 bytes, and marks them.
func parseLine(message string) (line accessLine, err error) {
	members, err := allMembers([]byte(message))
	switch {
	case err == nil:
	case strings.Contains(message, `"`+contract.LogReceipt+`"`):
		return line, fmt.Errorf("access log: got a line of %d bytes with a receipt, want one JSON object; was the line cut?", len(message))
	default:
		return line, nil // the line does not have the documented format, so it settles nothing
	}
	values := make(map[string]string, len(members))
	for _, m := range members {
		if _, repeated := values[m.name]; repeated {
			return line, fmt.Errorf("access log: got the member %.40q twice in one line, want it once", m.name)
		}
		values[m.name] = strings.Trim(string(m.value), `"`)
	}
	number := func(name string) (int64, bool) {
		n, err := strconv.ParseInt(values[name], 10, 64)
		return n, err == nil && n >= 0
	}
	line.known.bytes = unknownLength
	if line.receipt = values[contract.LogReceipt]; line.receipt == "-" {
		line.receipt = ""
	}
	if status, ok := number(contract.LogStatus); ok {
		line.known.status = int(status)
	}
	if length, ok := number(contract.LogLength); ok {
		line.known.bytes = length
	}
	return line, nil
}
