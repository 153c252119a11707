package lambdaenv

import (
	"bytes"
	"sync"
)

// maxLine is the maximum number of bytes of an incomplete line in memory.
const maxLine = 64 << 10

// lines is a writer that passes every line, without the newline, to the function in its field handle. A
// line longer than maxLine is split. If handle is nil, the writer only remembers the last line. It is safe
// for concurrent use.
type lines struct {
	handle func(line []byte)
	mu     sync.Mutex
	rest   []byte // the incomplete line
	last   []byte // the last line
}

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, b...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found && len(l.rest) <= maxLine {
			return len(b), nil
		}
		if !found {
			line, rest = l.rest[:maxLine], l.rest[maxLine:]
		}
		l.emit(line)
		l.rest = append([]byte(nil), rest...)
	}
}

// close emits the incomplete line. The caller must not call Write after close.
func (l *lines) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rest) > 0 {
		l.emit(l.rest)
		l.rest = nil
	}
}

func (l *lines) lastLine() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.last)
}

func (l *lines) emit(line []byte) {
	l.last = bytes.Clone(line)
	if l.handle != nil {
		l.handle(line)
	}
}
