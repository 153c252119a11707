package lambdaenv

import "bytes"

// maxLine is the most that is kept of an incomplete line.
const maxLine = 64 << 10

// lines calls each with every line that is written to it, without the newline. A line longer
// than maxLine comes in parts. The zero value only keeps the last line.
type lines struct {
	each func(line []byte)
	rest []byte // the incomplete line
	last []byte // the last line
}

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
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

// close emits the incomplete line. There must be no later Write.
func (l *lines) close() {
	if len(l.rest) > 0 {
		l.emit(l.rest)
		l.rest = nil
	}
}

func (l *lines) emit(line []byte) {
	l.last = bytes.Clone(line)
	if l.each != nil {
		l.each(line)
	}
}
