package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// renewal is the interval at which a terminal's table is updated and a growing file is read again.
const renewal = time.Second

// maxLine is the maximum length of a line in bytes. An event has a few hundred bytes.
const maxLine = 1 << 20

// sendLine sends a line to the channel, unless ctx ends.
func sendLine(ctx context.Context, lines chan<- []byte, line []byte) bool {
	select {
	case lines <- line:
		return true
	case <-ctx.Done():
		return false
	}
}

// reader is a source that sends the lines of a Reader until its end.
type reader struct{ io.Reader }

func (r reader) read(ctx context.Context, _ bool, lines chan<- []byte) error {
	s := bufio.NewScanner(r.Reader)
	s.Buffer(nil, maxLine)
	for s.Scan() {
		if !sendLine(ctx, lines, bytes.Clone(s.Bytes())) {
			return nil
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("a line is longer than %d bytes; want lines of JSON", maxLine)
	}
	return s.Err()
}

// logFile is a source that sends the lines of a file and follows the file while it grows.
type logFile struct{ path string }

func (l logFile) read(ctx context.Context, follow bool, lines chan<- []byte) error {
	f, err := os.Open(l.path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	var rest []byte // a last line that does not end in a newline yet
	for {
		text, err := io.ReadAll(io.LimitReader(f, maxLine))
		if err != nil {
			return err
		}
		rest = append(rest, text...)
		for line, after, ok := bytes.Cut(rest, []byte("\n")); ok; line, after, ok = bytes.Cut(rest, []byte("\n")) {
			if !sendLine(ctx, lines, bytes.Clone(line)) {
				return nil
			}
			rest = after
		}
		switch {
		case len(rest) > maxLine:
			return fmt.Errorf("%s: a line is longer than %d bytes; want lines of JSON", l.path, maxLine)
		case len(text) > 0:
			continue
		case !follow:
			sendLine(ctx, lines, rest)
			return nil
		case !pause(ctx, renewal):
			return nil
		}
		begun, err := seekIfTruncated(f)
		if err != nil {
			return err
		}
		if begun {
			rest = nil
		}
	}
}

// seekIfTruncated seeks to the start of a file that is shorter than the part already read, and
// reports whether it did so. make run truncates its log when it starts.
func seekIfTruncated(f *os.File) (bool, error) {
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return false, nil //nolint:nilerr // the input is a pipe, which cannot seek and is never truncated
	}
	info, err := f.Stat()
	if err != nil || info.Size() >= at {
		return false, err
	}
	_, err = f.Seek(0, io.SeekStart)
	return true, err
}

// pause waits for d or until ctx ends. It returns false if ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
